package claim

import (
	"errors"
	"testing"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// What a claim waits for ends with its workspace, here and in the ledger, whoever was seen
// to go: else room would be held for it again and again.
func TestWaiting_EndsWithTheWorkspace(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]func(t *testing.T, r *Reconciler){
		"departed": func(_ *testing.T, r *Reconciler) { r.Departed("a") },
		"woken": func(t *testing.T, r *Reconciler) {
			if _, err := r.Reconcile(t.Context(), requestIn("a", "x")); !errors.Is(err, multicluster.ErrClusterNotFound) {
				t.Errorf("a claim of a workspace that is not there: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledger := &withdrawals{}
			r := &Reconciler{Options: Options{Ledger: views.Ledger{Waits: ledger}, Directory: directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})}, clusters: testbed.Clusters{}}
			class := topic{kind: classTopic, name: "c"}
			r.waiting.enter(requestIn("a", "x"), gen.Claim("x"), []topic{class})
			r.waiting.enter(requestIn("b", "x"), gen.Claim("x"), []topic{class})
			ends(t, r)
			if left := r.waiting.on(class); len(left) != 1 || left[0] != requestIn("b", "x") {
				t.Errorf("%v wait, want that of the other workspace alone", left)
			}
			if ledger.count != 1 {
				t.Errorf("%d withdrawn from the ledger, want one", ledger.count)
			}
		})
	}
}
