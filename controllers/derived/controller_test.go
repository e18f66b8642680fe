package derived

import (
	"errors"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// An IPPool that is missing is created again.
func TestReconcile_AMissingObject(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.deletes(s.object(p))
	s.clock.Step(young)
	if due := s.sweeps(); due != 1 || s.object(p) == nil {
		t.Errorf("%d pools are due, the object is %v; want it again", due, s.object(p))
	}
	if due := s.sweeps(); due != 0 {
		t.Errorf("%d pools are due then, want none", due)
	}
}

// The pools above that of a claim are published after its CREATE was answered, each once.
func TestAnnounce_PublishesSoon(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.deletes(s.object(p))
	s.Announce(p, ledger.Pool{ID: "root", Cluster: "platform", Name: "root"}, p)
	if req, _ := s.queue.Get(); req != (request{p.ID, p.Cluster, p.Name}) || s.queue.Len() > 0 {
		t.Errorf("queued is %+v, and %d more; want the derived pool alone", req, s.queue.Len())
	}
	if s.look(p); s.object(p) == nil {
		t.Error("it is not published")
	}
}

// An IPPool without a pool in the ledger is deleted: at once if the pool was retired, after a while if it never had a status. One
// that shows its CIDR tells of a ledger that has lost it.
func TestReconcile_AnObjectWithoutAPool(t *testing.T) {
	for name, tt := range map[string]struct {
		retired bool
		cidr    string
		wait    time.Duration
		kept    bool
	}{
		"retired": {retired: true, cidr: "10.0.0.0/24"}, "never shown": {wait: stray}, "never shown, young": {kept: true},
		"lost": {cidr: "10.0.0.0/24", wait: stray, kept: true},
	} {
		s := newScene(t)
		p := s.network("net", "a", "root", 24)
		object := s.object(p)
		object.Status.AllocatedCIDR = tt.cidr
		if err := s.workspace.Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		if tt.retired {
			if err := s.alloc.Pools().Retire(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
		} else {
			s.Ledger.Pools = without{s.Ledger.Pools, p.ID}
		}
		s.clock.Step(tt.wait)
		if object.CreationTimestamp.IsZero() && tt.wait == 0 {
			object.CreationTimestamp.Time = s.clock.Now()
			if err := s.workspace.Update(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		s.look(p)
		if kept := s.object(p) != nil; kept != tt.kept {
			t.Errorf("%s: kept = %t, want %t", name, kept, tt.kept)
		}
	}
}

// without is a ledger that has lost a pool.
type without struct {
	views.Pools
	lost ledger.PoolID
}

func (l without) Get(id ledger.PoolID) (ledger.Pool, bool) {
	if id == l.lost {
		return ledger.Pool{}, false
	}
	return l.Pools.Get(id)
}

// A pool that nobody uses goes after a while, the one below before the one above. A pool that is used in between stays.
func TestSweep_IdlePools(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	below := s.network("sub", "a", p.ID, 28)
	used := s.network("net", "b", "root", 24)
	claim := s.bind(used, "c")
	_, held := s.ranged("net", "held", "root", 24)
	s.sweeps()
	s.clock.Step(DefaultIdle - time.Second)
	if due := s.sweeps(); due != 0 {
		t.Fatalf("%d pools are due before their time", due)
	}
	s.clock.Step(time.Second)
	if s.sweeps(); s.known(below) || s.object(below) != nil || !s.known(p) {
		t.Errorf("the pool below is known: %t, the one above: %t; want the latter alone", s.known(below), s.known(p))
	}
	if err := s.alloc.Release(t.Context(), ledger.ClaimID(claim.UID)); err != nil {
		t.Fatal(err)
	}
	s.bind(used, "d")
	if err := s.alloc.Release(t.Context(), "uid-of-d"); err != nil {
		t.Fatal(err)
	}
	s.sweeps()
	s.clock.Step(DefaultIdle)
	if s.sweeps(); s.known(p) || s.known(used) || !s.known(held) {
		t.Errorf("known are %t and %t, and the held one: %t; want the latter alone", s.known(p), s.known(used), s.known(held))
	}
}

// With 0, idle pools stay, but not those of a workspace that is bound nowhere.
func TestSweep_IdlePoolsOfAWorkspaceThatLeft(t *testing.T) {
	s := newScene(t)
	s.Idle = 0
	p := s.network("net", "a", "root", 24)
	s.sweeps()
	s.clock.Step(24 * time.Hour)
	if s.sweeps(); !s.known(p) {
		t.Fatal("the pool was retired")
	}
	s.bound, s.departed, s.verdict = false, true, live.Unbound
	if s.sweeps(); s.known(p) {
		t.Error("the pool of a workspace that left stays")
	}
}

// Where nobody has seen the workspace go, two looks that do not find it bound count.
func TestSweep_IdlePoolsOfAWorkspaceThatNobodySawLeave(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.sweeps()
	s.clock.Step(DefaultIdle)
	s.bound, s.verdict = false, live.Unbound
	s.sweep(t.Context())
	req, _ := s.queue.Get()
	if _, err := s.Reconcile(t.Context(), req); !errors.Is(err, errUnseen) || !s.known(p) {
		t.Errorf("Reconcile = %v, known: %t; want errUnseen and the pool", err, s.known(p))
	}
	s.queue.Done(req)
	s.clock.Step(live.Absence)
	if s.sweeps(); s.known(p) {
		t.Error("the pool stays after a second look")
	}
}

// A pool that is older than the endpoint slice stays, as its workspace may be on a shard that is away, and is in no slice that was made
// since: when the shard is back, the IPPool shows the addresses.
func TestSweep_IdlePoolsOlderThanTheEndpointSlice(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.sweeps()
	s.clock.Step(DefaultIdle)
	s.bound, s.verdict, s.since = false, live.Unbound, p.RegisteredAt.Add(time.Minute)
	for range 3 {
		s.sweep(t.Context())
		req, _ := s.queue.Get()
		if _, err := s.Reconcile(t.Context(), req); !errors.Is(err, errUnseen) || !s.known(p) {
			t.Fatalf("Reconcile = %v, known: %t; want errUnseen and the pool", err, s.known(p))
		}
		s.queue.Done(req)
		s.clock.Step(live.Absence)
	}
}

// A pool of the platform that nobody holds is retired with its address spaces, and these go by themselves, too.
func TestSweep_AddressSpaces(t *testing.T) {
	s := newScene(t)
	space, err := s.alloc.Derived().Space(t.Context(), "root", tenant, ledger.Scope{"network": {Kind: "Network", Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	s.bind(space, "c")
	s.sweeps()
	s.clock.Step(DefaultIdle)
	if s.sweeps(); !s.known(space) {
		t.Fatal("an address space in use was retired")
	}
	s.cooldown = time.Hour
	s.bind(space, "cools")
	if err := s.alloc.Release(t.Context(), "uid-of-cools"); err != nil {
		t.Fatal(err)
	}
	s.cooldown = 0
	if err := s.alloc.Release(t.Context(), "uid-of-c"); err != nil {
		t.Fatal(err)
	}
	s.sweeps()
	s.clock.Step(DefaultIdle)
	if s.sweeps(); !s.known(space) {
		t.Fatal("an address space was retired in which a block cools")
	}
	if _, err := s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Length: 32, Holder: ledger.Holder{Claim: "again", Cluster: tenant, Namespace: "default", Name: "cools"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.alloc.Release(t.Context(), "again"); err != nil {
		t.Fatal(err)
	}
	s.sweeps()
	s.clock.Step(DefaultIdle)
	if s.sweeps(); s.known(space) {
		t.Error("an idle address space stays")
	}
}
