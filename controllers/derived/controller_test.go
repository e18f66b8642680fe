package derived

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

func TestReconcile_CreatesAMissingIPPool(t *testing.T) {
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

// Announce queues each derived pool once, to be published, and leaves out a pool that a user has written.
func TestAnnounce_QueuesEachDerivedPoolOnce(t *testing.T) {
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

// An IPPool without a pool in the ledger is deleted: at once if the pool was retired, and after a while if the IPPool
// shows no CIDR. If it shows a CIDR and the pool was not retired, the ledger has lost the pool, and the IPPool stays.
func TestReconcile_DeletesAnIPPoolWithoutAPool(t *testing.T) {
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
		testbed.Update(t, s.workspace, object)
		if tt.retired {
			must.Do(t, s.alloc.Pools().Retire(t.Context(), p.ID))
		} else {
			s.Ledger.Pools = without{s.Ledger.Pools, p.ID}
		}
		s.clock.Step(tt.wait)
		if object.CreationTimestamp.IsZero() && tt.wait == 0 {
			object.CreationTimestamp.Time = s.clock.Now()
			testbed.Update(t, s.workspace, object)
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

// A pool that nobody has used for DefaultIdle is retired, after the pool below it. Each use starts that time again. A
// pool that a claim holds stays.
func TestSweep_RetiresIdlePools(t *testing.T) {
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
	must.Do(t, s.alloc.Release(t.Context(), ledger.ClaimID(claim.UID)))
	s.bind(used, "d")
	must.Do(t, s.alloc.Release(t.Context(), "uid-of-d"))
	if s.idles(DefaultIdle); s.known(p) || s.known(used) || !s.known(held) {
		t.Errorf("known are %t and %t, and the held one: %t; want the latter alone", s.known(p), s.known(used), s.known(held))
	}
}

// When a namespace is deleted, its range claims go in any order, and the claims of others may still be inside. A pool
// whose range claim is gone is retired as soon as it is empty, however long idle pools stay. A pool that a claim holds
// again, or that no claim has ever held, stays.
func TestSweep_RetiresEmptyPoolsWhoseRangeClaimIsGone(t *testing.T) {
	s := newScene(t)
	s.Idle = 0
	network, net := s.ranged("net", "a", "root", 24)
	location, loc := s.ranged("sub", "a", net.ID, 28)
	claim, never := s.bind(loc, "c"), s.network("net", "never", "root", 24)
	drop := func(claim *ipamv1alpha1.IPClaim, of ledger.Pool) {
		t.Helper()
		must.Do(t, s.alloc.Derived().Drop(t.Context(), of.ID, ledger.ClaimID(claim.UID), time.Time{}))
		s.Dropped(of.ID)
	}
	drop(network, net)
	drop(location, loc)
	if s.sweeps(); !s.known(net) || !s.known(loc) {
		t.Fatalf("with a claim inside, the pools are known: %t, %t; want both", s.known(net), s.known(loc))
	}
	must.Do(t, s.alloc.Release(t.Context(), ledger.ClaimID(claim.UID)))
	for range 2 { // the pool below goes first
		s.sweeps()
	}
	if s.known(net) || s.known(loc) || s.object(net) != nil || !s.known(never) {
		t.Errorf("without a claim, the pools are known: %t, %t, and one that no claim held: %t; want the latter alone", s.known(net), s.known(loc), s.known(never))
	}
	again, held := s.ranged("other", "b", "root", 24)
	s.Dropped(held.ID) // which another claim holds by now
	s.sweeps()
	must.Do(t, s.alloc.Derived().Drop(t.Context(), held.ID, ledger.ClaimID(again.UID), time.Time{}))
	if s.sweeps(); !s.known(held) {
		t.Error("a pool that was held again goes at once; want it to stay")
	}
}

// A CREATE makes a pool for a scope whose former pool was just retired with its range claim. The new pool stays,
// although no sweep came in between: the CREATE is about to bind its block there.
func TestSweep_KeepsAPoolThatWasMadeAgain(t *testing.T) {
	s := newScene(t)
	s.Idle = 0
	claim, net := s.ranged("net", "a", "root", 24)
	must.Do(t, s.alloc.Derived().Drop(t.Context(), net.ID, ledger.ClaimID(claim.UID), time.Time{}))
	s.Dropped(net.ID)
	must.Do(t, s.alloc.Pools().Retire(t.Context(), net.ID))
	again := s.network("net", "a", "root", 24)
	if again.ID != net.ID || s.old(again) {
		t.Errorf("pool %s, made again as %s, is to go: %t; want it to stay", net.ID, again.ID, s.old(again))
	}
	if s.sweeps(); !s.known(again) {
		t.Error("the pool that was made again is gone, want it to stay")
	}
}

// If Idle is 0, idle pools stay, except those of a workspace that is bound nowhere.
func TestSweep_RetiresIdlePoolsOfAnUnboundWorkspace(t *testing.T) {
	s := newScene(t)
	s.Idle = 0
	p := s.network("net", "a", "root", 24)
	if s.idles(24 * time.Hour); !s.known(p) {
		t.Fatal("the pool was retired")
	}
	s.bound, s.departed, s.verdict = false, true, live.Unbound
	if s.sweeps(); s.known(p) {
		t.Error("the pool of a workspace that left stays")
	}
}

// A workspace that no cache shows as bound may be bound: a list has left it out a moment ago, or an endpoint has not
// listed its bindings yet. Its pools are not retired earlier because of that.
func TestSweep_KeepsIdlePoolsOfAWorkspaceThatMayBeBound(t *testing.T) {
	for name, hides := range map[string]func(s *scene){
		"left out by a list": func(s *scene) {
			binding := testbed.Binding(string(tenant), "root:w")
			s.Catalog.Directory.Seen("endpoint", binding)
			s.Catalog.Directory.Missed(binding)
		},
		"an endpoint has not listed": func(s *scene) { s.Catalog.Listed = func() bool { return false } },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.Idle = 0
			p := s.network("net", "a", "root", 24)
			s.sweeps()
			s.clock.Step(24 * time.Hour)
			s.bound = false
			hides(s)
			if due := s.sweeps(); due != 0 || !s.known(p) || s.object(p) == nil {
				t.Errorf("%d pools are due, known: %t; want none, and the pool as it was", due, s.known(p))
			}
		})
	}
}

// If nobody has seen a workspace leave, its idle pool is retired only when two answers, with time in between, say that
// the workspace is bound nowhere.
func TestSweep_AsksTwiceForAWorkspaceThatNobodySawLeave(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.sweeps()
	s.clock.Step(DefaultIdle)
	s.bound, s.verdict = false, live.Unbound
	s.wantUnseen(p)
	s.clock.Step(live.Absence)
	if s.sweeps(); s.known(p) {
		t.Error("the pool stays after a second look")
	}
}

// An endpoint slice that is made while a shard is down does not list that shard. So a pool that is older than the
// endpoint slice is kept: its workspace may be on such a shard, with an IPPool that still shows the addresses.
func TestSweep_KeepsIdlePoolsOlderThanTheEndpointSlice(t *testing.T) {
	s := newScene(t)
	p := s.network("net", "a", "root", 24)
	s.sweeps()
	s.clock.Step(DefaultIdle)
	s.bound, s.verdict, s.since = false, live.Unbound, p.RegisteredAt.Add(time.Minute)
	for range 3 {
		s.wantUnseen(p)
		s.clock.Step(live.Absence)
	}
}

// wantUnseen expects a pool to be due, and to stay, because no server says whether its IPPool is there.
func (s *scene) wantUnseen(p ledger.Pool) {
	s.Helper()
	s.sweep(s.Context())
	req, _ := s.queue.Get()
	defer s.queue.Done(req)
	if _, err := s.Reconcile(s.Context(), req); !errors.Is(err, errUnseen) || !s.known(p) {
		s.Fatalf("Reconcile = %v, known: %t; want errUnseen and the pool", err, s.known(p))
	}
}

// An address space goes by itself with its last block. It stays while a block cools in it.
func TestSweep_LeavesAnAddressSpaceUntilItsLastBlockIsGone(t *testing.T) {
	s := newScene(t)
	space := s.space("root")
	s.bind(space, "c")
	s.cooldown = time.Hour
	s.bind(space, "cools")
	must.Do(t, s.alloc.Release(t.Context(), "uid-of-cools"))
	s.cooldown = 0
	must.Do(t, s.alloc.Release(t.Context(), "uid-of-c"))
	if s.idles(DefaultIdle); !s.known(space) {
		t.Fatal("an address space has gone in which a block cools")
	}
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: space.ID, Length: 32, Holder: ledger.Holder{Claim: "again", Cluster: tenant, Namespace: "default", Name: "cools"}}))(t)
	must.Do(t, s.alloc.Release(t.Context(), "again"))
	s.wantGone(space)
}

// A controller may be killed after any of its writes while it closes a range, and nobody may send the DELETE again. The
// sweeps of the next controller open and publish the range again. When the claim is deleted later, no pool and no
// IPPool is left.
func TestCloseRange_LeavesTheRangeOpenIfTheProcessIsKilled(t *testing.T) {
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
			for rounds := 0; s.sweeps() > 0; rounds++ {
				if rounds > 5 {
					t.Fatal("something is due in each round")
				}
			}
			s.wantOpen(p)
			s.mustClose(claim)
			s.deletes(claim)
			s.wantComplete(p)
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
