package main

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pool goes when its name was typed, and not before.
func TestPoolRelease_Confirm(t *testing.T) {
	lab := ready(gen.Pool("lab"), "10.8.0.0/16", ipamv1alpha1.IPv4, 50, 17)
	doomed := &estate{}
	doomed.addPools(lab, []ipamv1alpha1.IPPool{*gen.Pool("east", gen.ChildOf("lab", 20)), *gen.Pool("rack", gen.ChildOf("east", 24)), *lab})
	if got := doomed.pools[0].Name + doomed.pools[1].Name + doomed.pools[2].Name; got != "rackeastlab" {
		t.Errorf("the pools go in the order %s; want the leaves first", got)
	}
	for typed, want := range map[string]int{"lab\n": exitOK, "east\n": exitAborted, "\n": exitAborted, "": exitAborted, "lab": exitOK} {
		s := newStage(t)
		s.asks, s.In = true, strings.NewReader(typed)
		err := (&poolRelease{session: s.session}).confirm(t.Context(), doomed, "lab")
		if exitCode(err) != want {
			t.Errorf("%q typed: %v; want to end with %d", typed, err, want)
		}
		if want := "pool lab (10.8.0.0/16), 2 carved from it"; !strings.Contains(s.errs.String(), want) {
			t.Errorf("the question is %q; want it to name %q", s.errs, want)
		}
	}
	s := newStage(t)
	if err := (&poolRelease{session: s.session}).confirm(t.Context(), doomed, "lab"); exitCode(err) != exitAborted ||
		!strings.Contains(err.Error(), "stdin is not a terminal: pass --yes") {
		t.Errorf("without a terminal: %v; want to end with %d and to name --yes", err, exitAborted)
	}
	if err := (&poolRelease{session: s.session, yes: true}).confirm(t.Context(), doomed, "lab"); err != nil {
		t.Errorf("with --yes: %v", err)
	}
}
