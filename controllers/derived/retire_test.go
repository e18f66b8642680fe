package derived

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool that a claim holds, or that has a block or a pool inside, is not retired, and keeps its IPPool.
func TestRetire_RefusesAPoolInUse(t *testing.T) {
	s := newScene(t)
	held := s.network("net", "held", "root", 24, ledger.Holder{Claim: "uid-of-r", Cluster: tenant, Namespace: "default", Name: "r"})
	used := s.network("net", "used", "root", 24)
	s.bind(used, "c")
	parent := s.network("net", "parent", "root", 24)
	s.network("sub", "parent", parent.ID, 28)
	for want, pools := range map[error][]ledger.Pool{ledger.ErrChanged: {held}, ledger.ErrPoolInUse: {used, parent}} {
		for _, p := range pools {
			if err := s.Retire(t.Context(), p, ""); !errors.Is(err, want) || s.object(p) == nil {
				t.Errorf("Retire of %s = %v, want %v and its object kept", p.Name, err, want)
			}
		}
	}
	must.Do(t, s.RetireBelow(t.Context(), parent.ID))
	if err := s.Retire(t.Context(), parent, ""); err != nil || s.known(parent) {
		t.Errorf("Retire of an empty parent = %v", err)
	}
}

// While no server says whether the IPPool is gone, the pool stays in the ledger, closed. A later sweep retires it.
func TestRetire_DeletesTheIPPoolFirst(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.away = true
	if err := s.Retire(t.Context(), p, ""); !errors.Is(err, errUnseen) || !s.known(p) {
		t.Fatalf("Retire = %v, known: %t; want errUnseen and the pool", err, s.known(p))
	}
	s.away = false
	s.clock.Step(time.Second)
	if due := s.sweeps(); due != 1 || s.known(p) || s.object(p) != nil {
		t.Errorf("%d pools are due, known: %t; want the closed one to be retired", due, s.known(p))
	}
}

// slowRanges calls the function begun after each Begin, and the function retire before each Retire, if these are set.
type slowRanges struct {
	Ranges
	begun, retire func()
}

func (r slowRanges) Begin(ctx context.Context, id ledger.PoolID, by ledger.ClaimID, until time.Time) (bool, error) {
	first, err := r.Ranges.Begin(ctx, id, by, until)
	if r.begun != nil {
		r.begun()
	}
	return first, err
}

func (r slowRanges) Retire(ctx context.Context, id ledger.PoolID, by ledger.ClaimID) error {
	if r.retire != nil {
		r.retire()
	}
	return r.Ranges.Retire(ctx, id, by)
}

// A caller retires a pool. Meanwhile another caller has retired it, and it was made again. The new pool stays open, and
// keeps its IPPool.
func TestRetire_LeavesThePoolThatWasMadeAgain(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "n", "root", 24)
	ranges := s.Ranges
	s.Ranges = slowRanges{Ranges: ranges, begun: func() {
		s.Ranges = ranges
		must.Do(t, s.Retire(t.Context(), p, ""))
		for !time.Now().Truncate(time.Millisecond).After(p.RegisteredAt) {
			runtime.Gosched() // the ledger counts milliseconds; over a network, four transactions take longer than one
		}
		s.network("net", "n", "root", 24)
	}}
	must.Do(t, s.Retire(t.Context(), p, ""))
	if now, ok := s.alloc.Pools().Get(p.ID); !ok || now.Closed() || s.object(now) == nil {
		t.Errorf("the ledger has %+v (%t), and its IPPool is %v; want both, and the pool open", now, ok, s.object(p))
	}
}

// frozen is a ledger whose pools were not compared with their IPPools.
type frozen struct{ views.Recovery }

func (frozen) Frozen(ledger.PoolID) bool { return true }

// If a pool was not compared with its IPPool, the ledger may be an older copy that lacks blocks. Such a pool is neither
// closed nor retired, although it seems to be empty. A pool without an IPPool is retired: no block of it was published.
func TestRetire_FailsWhileTheLedgerMayHaveLostBlocks(t *testing.T) {
	s := newScene(t)
	claim, held := s.ranged("net", "held", "root", 24)
	idle := s.network("net", "idle", "root", 24)
	s.Ledger.Recovery = frozen{s.Ledger.Recovery}
	ctx, cancel := context.WithTimeout(t.Context(), 5*glance)
	defer cancel()
	if inside, err := s.CloseRange(ctx, tenant, claim, false); !errors.Is(err, errLost) || s.object(held) == nil {
		t.Errorf("CloseRange = %q, %v; want errLost, and the object", inside, err)
	}
	if err := s.Retire(t.Context(), idle, ""); !errors.Is(err, errLost) || !s.known(idle) {
		t.Errorf("Retire = %v, want errLost", err)
	}
	s.deletes(s.object(idle))
	if err := s.Retire(t.Context(), idle, ""); err != nil || s.known(idle) {
		t.Errorf("Retire of a pool without an IPPool = %v, want it to be retired", err)
	}
	s.compared = true
	if s.mustClose(claim); s.object(held) != nil {
		t.Errorf("after the comparison the object is %v; want none", s.object(held))
	}
}

// The claim of a range is gone, and the range is being retired by a slow server. Meanwhile the claim's hold ends,
// another claim gets the range, and the range is closed for the DELETE of that other claim. The retirement fails with
// ErrChanged. When the DELETE has failed, the other claim still has the range.
func TestRetire_LeavesARangeThatAnotherDELETEHasClosed(t *testing.T) {
	s := newScene(t)
	former, p := s.ranged("net", "a", "root", 24)
	s.mustClose(former)
	s.deletes(former)
	next := gen.Claim("next", gen.OfClass("net"))
	testbed.Create(t, s.workspace, next)
	s.Ranges = slowRanges{Ranges: s.Ranges, retire: func() {
		must.Do(t, s.alloc.Derived().Drop(t.Context(), p.ID, ledger.ClaimID(former.UID), p.Derived.HeldSince))
		must.Get(s.alloc.Derived().Hold(t.Context(), p.ID, holderOf(next)))(t)
		next.Status.AllocatedCIDR = p.CIDR.String()
		s.mustClose(next)
	}}
	must.Be(t, s.RetireClosed(t.Context(), p.ID, ledger.ClaimID(former.UID)), ledger.ErrChanged)
	s.clock.Step(promise.Grace + time.Second)
	s.look(p)
	if other := s.network("net", "b", "root", 24); !s.known(p) || other.CIDR == p.CIDR {
		t.Errorf("range %s of claim %s is in the ledger: %t; another network has %s", p.CIDR, next.Name, s.known(p), other.CIDR)
	}
}
