package derived

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// ranged makes a claim, and the pool of a network. The claim holds the pool.
func (s *scene) ranged(class, name string, above ledger.PoolID, length int) (*ipamv1alpha1.IPClaim, ledger.Pool) {
	s.Helper()
	claim := gen.Claim("range-"+class, gen.OfClass(class))
	testbed.Create(s, s.workspace, claim)
	p := s.network(class, name, above, length, holderOf(claim))
	claim.Status.AllocatedCIDR = p.CIDR.String()
	return claim, p
}

// shared makes a claim with these finalizers, and a pool. The claim holds the pool, and all workspaces share it.
func (s *scene) shared(finalizers ...string) (*ipamv1alpha1.IPClaim, ledger.Pool) {
	s.Helper()
	claim := gen.Claim("range", gen.OfClass("net"))
	claim.Finalizers = finalizers
	testbed.Create(s, s.workspace, claim)
	p := must.Get(s.alloc.Derived().Provision(s.Context(), ledger.Request{Pool: "root", Length: 24}, ledger.Pool{
		Cluster: tenant, Name: "net-all", Derived: &ledger.Derived{Class: "net", Scope: ledger.Scope{}, Holder: holderOf(claim)},
	}, nil))(s)
	must.Do(s, s.Publish(s.Context(), p))
	return claim, p
}

// guest binds an address of a pool for a claim of another workspace.
func (s *scene) guest(p ledger.Pool, name string) {
	s.Helper()
	by := ledger.Holder{Claim: ledger.ClaimID("uid-of-" + name), Cluster: "v", Namespace: "n", Name: name}
	must.Get(s.alloc.Bind(s.Context(), ledger.Request{Pool: p.ID, Length: 32, Holder: by}))(s)
}

// closes calls CloseRange for the DELETE of a claim, with half a second of time, and returns the refusal.
func (s *scene) closes(claim *ipamv1alpha1.IPClaim, dry bool) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 500*time.Millisecond)
	defer cancel()
	inside, err := s.CloseRange(ctx, tenant, claim, dry)
	if err != nil {
		s.Fatalf("CloseRange of %s: %v", claim.Name, err)
	}
	return inside
}

// mustClose calls CloseRange for the DELETE of a claim, and fails the test if the DELETE is refused.
func (s *scene) mustClose(claim *ipamv1alpha1.IPClaim) {
	s.Helper()
	if inside := s.closes(claim, false); inside != "" {
		s.Fatalf("the DELETE of %s is refused: %s", claim.Name, inside)
	}
}

// space returns an address space of a pool. The ledger has it from its first block on.
func (s *scene) space(pool ledger.PoolID) ledger.Pool {
	s.Helper()
	return s.spaceFor(pool, ledger.Scope{"vrf": {Kind: "VRF", Name: "red"}})
}

func (s *scene) spaceFor(pool ledger.PoolID, scope ledger.Scope) ledger.Pool {
	s.Helper()
	of, ok := s.alloc.Pools().Get(pool)
	if !ok {
		s.Fatalf("there is no pool %s", pool)
	}
	made := ledger.Derived{Workspace: tenant, Scope: scope}.In(of)
	s.begins[made.ID] = made.Derived
	return made
}

// wantComplete calls Complete for a closed range, and expects the range to be open, or gone, afterwards.
func (s *scene) wantComplete(p ledger.Pool) {
	s.Helper()
	if done, err := s.Complete(s.Context(), p.ID); !done || err != nil {
		s.Errorf("Complete = %t, %v; want the pool to be open, or gone", done, err)
	}
}

func (s *scene) deletes(objects ...client.Object) {
	s.Helper()
	testbed.Delete(s, s.workspace, objects...)
}

// wantOpen expects a range to be open, and published.
func (s *scene) wantOpen(p ledger.Pool) {
	s.Helper()
	if now, ok := s.alloc.Pools().Get(p.ID); !ok || now.Closed() || now.Derived.Holder != p.Derived.Holder || s.object(p) == nil {
		s.Errorf("the range is %+v (%t), with the object %v; want it open, held and published", now.Derived, ok, s.object(p))
	}
}

// When the DELETE of an empty range is allowed, the range is closed, its IPPool is gone, and the idle pools below it
// are retired. When the claim is gone, the pool is retired, too. A dry run changes nothing.
func TestCloseRange_ClosesAnEmptyRange(t *testing.T) {
	s := newScene(t)
	claim, p := s.ranged("net", "a", "root", 24)
	below := s.network("sub", "a", p.ID, 28)
	gone := s.bind(below, "gone")
	s.deletes(gone) // and its release is not settled yet
	if inside := s.closes(claim, true); inside != "" || s.object(p) == nil || !s.known(below) {
		t.Errorf("a dry run says %q, the object is %v; want nothing, and all as it was", inside, s.object(p))
	}
	s.mustClose(claim)
	if s.object(p) != nil || s.object(below) != nil || s.known(below) || !s.known(p) {
		t.Errorf("the objects are %v and %v, the pool below known: %t, the range: %t; want the range alone", s.object(p), s.object(below), s.known(below), s.known(p))
	}
	s.mustClose(claim) // once more
	s.deletes(claim)
	if s.wantComplete(p); s.known(p) {
		t.Error("the pool is known; want it gone")
	}
}

// A claim that was answered holds its range by the allocation ID that it shows. If it is deleted, that range is closed.
// If another claim shows the same ID and is deleted, the range stays open.
func TestCloseRange_FindsTheRangeByAllocationID(t *testing.T) {
	s := newScene(t)
	claim, thief := gen.Claim("net", gen.OfClass("net")), gen.Claim("thief", gen.OfClass("net"))
	claim.Status.AllocationID = types.UID(promise.NewID(tenant, "default", "net"))
	claim.Status.AllocatedCIDR = "10.0.0.0/24"
	p := s.network("net", "a", "root", 24, promise.HolderOf(tenant, claim))
	claim.Status.AllocatedCIDR = p.CIDR.String()
	thief.Status = claim.Status
	if inside, err := s.CloseRange(t.Context(), tenant, thief, false); inside != "" || err != nil {
		t.Errorf("CloseRange of a claim that shows the ID of another = %q, %v; want nothing", inside, err)
	}
	s.wantOpen(p)
	testbed.Create(t, s.workspace, claim)
	if s.mustClose(claim); s.object(p) != nil {
		t.Errorf("the object is %v; want none", s.object(p))
	}
	s.deletes(claim)
	if s.wantComplete(p); s.known(p) {
		t.Error("the pool is known; want it gone")
	}
}

// A claim that holds no range may be deleted, unless the ledger may have lost the range that the claim shows.
func TestCloseRange_AllowsAClaimWithoutARange(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("net", gen.OfClass("net"))
	claim.Status.AllocatedCIDR = "10.0.0.0/24"
	if inside, err := s.CloseRange(t.Context(), tenant, claim, false); inside != "" || err != nil {
		t.Errorf("CloseRange = %q, %v; want nothing", inside, err)
	}
	s.lost = true
	if inside, err := s.CloseRange(t.Context(), tenant, claim, false); !errors.Is(err, errLost) {
		t.Errorf("CloseRange = %q, %v; want errLost while the ledger may have lost the pool", inside, err)
	}
}

// The ledger gets a range back while a DELETE asks whether it has lost anything. The DELETE closes the range.
func TestCloseRange_ClosesARangeThatComesBackMeanwhile(t *testing.T) {
	s := newScene(t)
	claim := gen.Claim("net", gen.OfClass("net"))
	holder := promise.HolderOf(tenant, claim)
	p := s.network("net", "a", "root", 24, ledger.Holder{})
	claim.Status.AllocatedCIDR = p.CIDR.String()
	s.HasAll = func(ctx context.Context, _ ledger.ClusterName, _ client.Object) (bool, error) {
		_, err := s.alloc.Derived().Hold(ctx, p.ID, holder)
		return true, err
	}
	if inside, err := s.CloseRange(t.Context(), tenant, claim, false); inside != "" || err != nil || s.object(p) != nil {
		t.Errorf("CloseRange = %q, %v, and the object is %v; want the range closed, and no object", inside, err, s.object(p))
	}
}

// A further DELETE of a Terminating claim does not close its range. However often the owner sends it, the CREATEs of
// other workspaces in a shared network are served.
func TestCloseRange_IgnoresATerminatingClaim(t *testing.T) {
	s := newScene(t)
	claim, p := s.shared("example.com/stays")
	s.mustClose(claim)
	s.deletes(claim)
	s.wantComplete(p) // a CREATE of another workspace opens it
	must.Do(t, s.workspace.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	for range 3 {
		s.mustClose(claim)
	}
	s.guest(p, "guest")
}

// Replace retires a pool and the pools below it, with their IPPools. If one of these pools is in use, it retires none.
func TestReplace_RetiresOnlyUnusedPools(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	below := s.network("sub", "a", p.ID, 28)
	claim := s.bind(below, "c")
	if err := s.Replace(t.Context(), p); !errors.Is(err, ledger.ErrPoolInUse) || !s.known(p) || !s.known(below) {
		t.Errorf("Replace of a pool in use = %v, known are %t and %t; want %v, and both", err, s.known(p), s.known(below), ledger.ErrPoolInUse)
	}
	must.Do(t, s.alloc.Release(t.Context(), ledger.ClaimID(claim.UID)))
	must.Do(t, s.Replace(t.Context(), p))
	if s.known(p) || s.known(below) || s.object(p) != nil || s.object(below) != nil {
		t.Errorf("after Replace, known are %t and %t; want neither, and no IPPool", s.known(p), s.known(below))
	}
}
