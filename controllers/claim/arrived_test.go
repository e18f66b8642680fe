package claim

import (
	"testing"

	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// What was passed over while a workspace was giving up the export is reconciled when it is
// served again. Of one that is not engaged nothing is known yet.
func TestArrived(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	r := &Reconciler{Options: Options{Directory: known, Queue: inbox.New(known).Claims}}
	t.Cleanup(r.Queue.ShutDown)

	r.clusters = testbed.Clusters{}
	r.Arrived("a")
	if got := r.Queue.Len(); got != 0 {
		t.Errorf("%d claims of a workspace that is not engaged are queued, want none", got)
	}
	r.clusters = testbed.Clusters{"a": testbed.NewWorkspace(t, gen.Claim("x"), gen.Claim("y"))}
	r.Arrived("a")
	for _, want := range []string{"x", "y"} {
		if got, _ := r.Queue.Get(); got != requestIn("a", want) {
			t.Errorf("queued is %v, want %v", got, requestIn("a", want))
		}
	}
	if got := r.Queue.Len(); got != 0 {
		t.Errorf("%d more claims are queued, want none", got)
	}
}
