package derived

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A controller may be killed after any of its writes while it closes a range, and nobody may send the DELETE again. Then the range is
// as it was, as soon as no such DELETE can succeed. It can be released then, and nothing is left.
func TestCloseRange_KilledAndNotAskedAgain(t *testing.T) {
	t.Parallel()
	for writes, dead := 1, true; dead; writes++ {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			s := newScene(t)
			claim, p := s.ranged("net", "a", "root", 24)
			s.network("sub", "a", p.ID, 28)
			fuse, life := testbed.NewFuse(t, writes)
			s.start(fuse.Etcd(s.etcd), fuse.Client(s.workspace))
			inside, err := s.CloseRange(life, tenant, claim, false)
			if dead = fuse.Blown(); !dead && (inside != "" || err != nil) {
				t.Fatalf("CloseRange = %q, %v", inside, err)
			}
			s.start(s.etcd, s.workspace)
			s.clock.Step(promise.Grace + time.Second)
			for rounds := 0; s.sweeps() > 0; rounds++ {
				if rounds > 5 {
					t.Fatal("something is due in each round")
				}
			}
			now, ok := s.alloc.Pools().Get(p.ID)
			if !ok || !now.Derived.Releasing.IsZero() || now.Derived.Holder.Claim != ledger.ClaimID(claim.UID) || s.object(p) == nil {
				t.Errorf("the range is %+v (%t), its object %v; want it open, held and published", now, ok, s.object(p))
			}
			if inside := s.closes(claim, false); inside != "" {
				t.Fatalf("the DELETE is refused: %s", inside)
			}
			s.deletes(claim)
			if open, err := s.Complete(t.Context(), p.ID); !open || err != nil {
				t.Errorf("Complete = %t, %v; want the pool to be gone", open, err)
			}
			for left := range s.alloc.Derived().All() {
				t.Errorf("pool %s is left", left.Name)
			}
			objects := &ipamv1alpha1.IPPoolList{}
			if err := s.workspace.List(t.Context(), objects); err != nil || len(objects.Items) > 0 {
				t.Errorf("there are %d IPPools, %v; want none", len(objects.Items), err)
			}
			etcdtest.CheckLedger(t, s.etcd, "/ipam/v1")
		})
	}
}
