package output

import (
	"context"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Whatever the order of the server is, classes are listed by name.
func TestList_OrdersByName(t *testing.T) {
	c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		list.(*ipamv1alpha1.IPClassList).Items = []ipamv1alpha1.IPClass{*gen.Class("vip"), *gen.Class("internal"), *gen.Class("tiny")}
		return nil
	}})
	list := &ipamv1alpha1.IPClassList{}
	o := &Listing{Session: stage.New(t).Session}
	if err := o.read(t.Context(), c, list, &client.ListOptions{}); err != nil {
		t.Fatalf("read: %v", err)
	}
	var names []string
	for _, class := range list.Items {
		names = append(names, class.Name)
	}
	if got, want := strings.Join(names, " "), "internal tiny vip"; got != want {
		t.Errorf("the classes are listed as %q, want %q", got, want)
	}
}
