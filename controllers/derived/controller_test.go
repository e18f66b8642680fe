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
	must.Do(t, s.alloc.Release(t.Context(), ledger.ClaimID(claim.UID)))
	s.bind(used, "d")
	must.Do(t, s.alloc.Release(t.Context(), "uid-of-d"))
	if s.idles(DefaultIdle); s.known(p) || s.known(used) || !s.known(held) {
		t.Errorf("known are %t and %t, and the held one: %t; want the latter alone", s.known(p), s.known(used), s.known(held))
	}
}

// When a namespace is deleted, its range claims go in any order, and those of others may live inside. A pool whose range claim has
// gone goes once it is empty, however long idle pools stay; one that a claim holds again, or that never was held, does not.
func TestSweep_PoolsGoWithTheirLastRangeClaim(t *testing.T) {
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

// A pool that a CREATE makes for a scope whose pool has just gone with its range claim stays, though no sweep was in between: the
// CREATE is about to bind its block there.
func TestSweep_PoolsMadeAgainStay(t *testing.T) {
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

// With 0, idle pools stay, but not those of a workspace that is bound nowhere.
func TestSweep_IdlePoolsOfAWorkspaceThatLeft(t *testing.T) {
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

// A workspace that is out of sight may be bound: a list has left it out a moment ago, or an endpoint has not listed who is. Its pools are
// idle for no longer because of that.
func TestSweep_IdlePoolsOfAWorkspaceOutOfSight(t *testing.T) {
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

// Where nobody has seen the workspace go, two looks that do not find it bound count.
func TestSweep_IdlePoolsOfAWorkspaceThatNobodySawLeave(t *testing.T) {
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

// A pool that is older than the endpoint slice stays, as its workspace may be on a shard that is away, and is in no slice that was made
// since: when the shard is back, the IPPool shows the addresses.
func TestSweep_IdlePoolsOlderThanTheEndpointSlice(t *testing.T) {
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

// wantUnseen expects a pool to be due, and to stay, as no server says whether its IPPool is there.
func (s *scene) wantUnseen(p ledger.Pool) {
	s.Helper()
	s.sweep(s.Context())
	req, _ := s.queue.Get()
	defer s.queue.Done(req)
	if _, err := s.Reconcile(s.Context(), req); !errors.Is(err, errUnseen) || !s.known(p) {
		s.Fatalf("Reconcile = %v, known: %t; want errUnseen and the pool", err, s.known(p))
	}
}

// An address space goes by itself with its last block, and not while one cools there.
func TestSweep_AddressSpaces(t *testing.T) {
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

// A controller may be killed after any of its writes while it closes a range, and nobody may send the DELETE again. Then the range is
// as it was when the next one has looked. It can be released then, and nothing is left.
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
