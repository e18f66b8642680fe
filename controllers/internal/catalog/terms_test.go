package catalog

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The claim's word counts, else that of its class. Nobody knows that of a class that is gone.
func TestReclaims(t *testing.T) {
	t.Parallel()
	keeps, silent := gen.Class("keeps", gen.Reclaim(ipamv1alpha1.ReclaimRetain)), gen.Class("silent")
	p := testbed.Clusters{"": testbed.NewWorkspace(t, keeps, silent)}
	c := &Catalog{Clusters: p, Directory: directory.New(directory.Workspace{Cluster: "platform"})}
	for _, tt := range []struct {
		own   ipamv1alpha1.ReclaimPolicy
		class string
		want  ledger.ReclaimPolicy
	}{
		{"", "", ledger.Delete},
		{"", "silent", ledger.Delete},
		{"", "keeps", ledger.Retain},
		{"", "gone", ""},
		{ipamv1alpha1.ReclaimDelete, "keeps", ledger.Delete},
		{ipamv1alpha1.ReclaimRetain, "silent", ledger.Retain},
		{ipamv1alpha1.ReclaimRetain, "gone", ledger.Retain},
	} {
		if got, err := c.Reclaims(t.Context(), tt.own, tt.class); err != nil || got != tt.want {
			t.Errorf("Reclaims(%q, %q) = %q, %v; want %q", tt.own, tt.class, got, err, tt.want)
		}
	}
}
