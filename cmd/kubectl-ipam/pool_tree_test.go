package main

import (
	"testing"

	"github.com/spf13/cobra"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool and those below it are shown in each form, and a pool that does not exist in none.
func TestPoolTree_Name(t *testing.T) {
	pools := []ipamv1alpha1.IPPool{*gen.Pool("edge"), *gen.Pool("rack", gen.ChildOf("east", 24)), *gen.Pool("lab"), *gen.Pool("east", gen.ChildOf("lab", 20))}
	for _, test := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "edge\nrack\nlab\neast\n", exitOK},
		{[]string{"lab"}, "lab\neast\nrack\n", exitOK},
		{[]string{"rack"}, "rack\n", exitOK},
		{[]string{"lap"}, "", exitNotFound},
	} {
		for _, format := range []string{"", "custom-columns=NAME:.metadata.name"} {
			s, out := newStage(t), &output{noHeaders: true}
			out.addFlags(&cobra.Command{})
			out.format, out.noHeaders = format, true
			if err := out.validate(); err != nil {
				t.Fatal(err)
			}
			err := s.showTree(&reach{}, pools, test.args, out)
			if exitCode(err) != test.code || format != "" && s.out.String() != test.want {
				t.Errorf("pool tree %v -o %q prints %q and ends with %v; want %q and %d", test.args, format, s.out, err, test.want, test.code)
			}
		}
	}
}
