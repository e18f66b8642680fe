package inbox

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// used is a ledger. It has the number of blocks in each of its pools.
type used map[ledger.PoolID]int

func (u used) Get(id ledger.PoolID) (ledger.Pool, bool) {
	return ledger.Pool{ID: id, Name: string(id), Cluster: "w"}, true
}

func (u used) InUse(id ledger.PoolID) bool { return u[id] > 0 }

func newInbox(t *testing.T) *Inbox {
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	t.Cleanup(news.Claims.ShutDown)
	return news
}

// wantQueued expects that number of pools to be queued at once.
func (i *Inbox) wantQueued(t *testing.T, when string, want int) {
	t.Helper()
	if got := i.Pools.Len(); got != want {
		t.Fatalf("%s: %d pools are queued at once, want %d", when, got, want)
	}
}

// A pool whose last block is released is reconciled at once, so that it can be deleted. All other changes are gathered.
func TestChanged_RequeuesAnEmptiedPoolAtOnce(t *testing.T) {
	t.Parallel()
	news := newInbox(t)
	news.Changed(used{"busy": 1, "free": 0}, "busy", "free")
	news.wantQueued(t, "one of two is free", 1)
	got, _ := news.Pools.Get()
	if want := Request("w", client.ObjectKey{Name: "free"}); got != want {
		t.Errorf("queued is %v, want %v", got, want)
	}
}

// A pool that was empty before a change takes its turn.
func TestChanged_LetsAPoolThatStaysEmptyWait(t *testing.T) {
	t.Parallel()
	news := newInbox(t)
	news.Changed(used{"free": 0}, "free")
	got, _ := news.Pools.Get()
	news.Pools.Done(got)
	news.Changed(used{"free": 0}, "free")
	news.wantQueued(t, "the pool was empty before", 0)
}

// An address space begins while its pool is in use. The pool is not requeued at once.
func TestChanged_LetsANewAddressSpaceWait(t *testing.T) {
	t.Parallel()
	apart := ledger.PoolID("busy." + strings.Repeat("0", 64))
	news := newInbox(t)
	news.Changed(used{"busy": 1, apart: 0}, apart)
	news.wantQueued(t, "an address space begins", 0)
	news.Changed(used{"busy": 0, apart: 0}, apart)
	news.wantQueued(t, "the pool is emptied with its address space", 1)
	got, _ := news.Pools.Get()
	if want := Request("w", client.ObjectKey{Name: "busy"}); got != want {
		t.Errorf("queued is %v, want %v", got, want)
	}
}

// A pool that was just made takes its turn, and so do the pools above it, because it gets its first block a moment
// later.
func TestChanged_LetsANewPoolWait(t *testing.T) {
	t.Parallel()
	news := newInbox(t)
	news.Changed(family{made: time.Now()}, "grandchild")
	news.wantQueued(t, "a pool is made", 0)
}

// A pool that is emptied again and again is requeued at once only after Coalesce has passed since the last time.
func TestEmptied_LimitsHowOftenAPoolIsRequeuedAtOnce(t *testing.T) {
	t.Parallel()
	var e emptied
	start := time.Unix(0, 0)
	for i, step := range []struct {
		after  time.Duration
		filled bool // before it is empty
		want   bool
	}{
		{0, false, true}, {2 * Coalesce, false, false}, {3 * Coalesce, true, true}, {3*Coalesce + 1, true, false}, {9 * Coalesce, false, false}, {9 * Coalesce, true, true},
	} {
		if step.filled {
			e.filled("p")
		}
		if got := e.first("p", start.Add(step.after)); got != step.want {
			t.Errorf("step %d: first after %s = %t, want %t", i, step.after, got, step.want)
		}
	}
	e.forget("p")
	if len(e.pools) != 0 {
		t.Errorf("%d pools are remembered, want none after the last has left the ledger", len(e.pools))
	}
}

// family is a root pool with a derived pool below it, and a second derived pool below that one. A claim may hold the
// second.
type family struct {
	held bool
	made time.Time
}

func (f family) Get(id ledger.PoolID) (ledger.Pool, bool) {
	p := ledger.Pool{ID: id, Name: string(id), Cluster: "w", RegisteredAt: f.made}
	switch id {
	case "child":
		p.Parent, p.Derived = "root", &ledger.Derived{Class: "net"}
	case "grandchild":
		p.Parent, p.Derived = "child", &ledger.Derived{Class: "sub"}
		if f.held {
			p.Derived.Holder.Claim = "c"
		}
	}
	return p, true
}

func (f family) InUse(id ledger.PoolID) bool { return f.held && id != "grandchild" }

// A derived pool counts as usage of the pools above it only while it is in use. So the pools above are requeued with
// it, at once if it is emptied.
func TestChanged_RequeuesThePoolsAboveAnEmptiedOne(t *testing.T) {
	t.Parallel()
	news := newInbox(t)
	news.Changed(family{held: true}, "grandchild")
	news.wantQueued(t, "it is held", 0)
	news.Changed(family{}, "grandchild")
	news.wantQueued(t, "it is emptied, with two above", 3)
}

// The pools above a derived pool are requeued when that pool gets its first block, however long after it was made. That
// is so even if nothing was known of the pool, as after a restart.
func TestChanged_RequeuesThePoolsAboveAFilledOne(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]family{
		"after a restart": nil, "just made": {{}}, "just made, filled and emptied": {{}, {held: true}, {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			news := New(directory.New(directory.Workspace{Cluster: "platform"}))
			for _, change := range before {
				change.made = time.Now()
				news.Changed(change, "grandchild")
			}
			shown := map[string]bool{}
			take := func() {
				got, _ := news.Pools.Get()
				news.Pools.Done(got)
				shown[got.Name] = true
			}
			if before != nil {
				for len(shown) < 3 {
					take()
				}
				clear(shown)
			}
			news.Changed(family{held: true}, "grandchild")
			time.AfterFunc(5*time.Second, news.Pools.ShutDown)
			for len(shown) < 3 && !news.Pools.ShuttingDown() {
				take()
			}
			for _, pool := range []string{"root", "child", "grandchild"} {
				if !shown[pool] {
					t.Errorf("reconciled are %v; want %s, too", shown, pool)
				}
			}
		})
	}
}

// A pool may count towards the number of pools that another workspace may have. When the pool is retired, that
// workspace may have one more pool of its own.
func TestRetired_WakesTheWorkspaceThatThePoolCountedFor(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]*ledger.Derived{
		"address space": {Of: "root", Workspace: "w"}, "pool for all workspaces": {Class: "net", By: "w"},
	} {
		news := newInbox(t)
		news.Retired(ledger.Pool{ID: "p", Name: "p", Cluster: "platform", Derived: of})
		woken := map[multicluster.ClusterName]bool{}
		for news.Pools.Len() > 0 {
			got, _ := news.Pools.Get()
			news.Pools.Done(got)
			woken[got.ClusterName] = true
		}
		if want := map[multicluster.ClusterName]bool{"": true, "w": true}; !maps.Equal(woken, want) {
			t.Errorf("%s: the pools of %v are requeued, want %v", name, woken, want)
		}
	}
}

// Each of many pools that share a block has one turn in a round, whenever untilTurn is called, and no two pools have
// the same turn. A few pools take no turns.
func TestUntilTurn_GivesEachPoolOneTurnInARound(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, of := range []int{few + 1, 64} {
		round, turns := time.Duration(of)*apart, map[time.Duration]int{}
		for place := range of {
			for now := start; now.Before(start.Add(round)); now = now.Add(7 * time.Millisecond) {
				wait := untilTurn(now, place, of)
				if wait < 0 || wait >= round {
					t.Fatalf("untilTurn(%v, %d, %d) = %v; want at least 0 and less than %v", now, place, of, wait, round)
				}
				turn := now.Add(wait).Sub(start) % round
				if other, taken := turns[turn]; taken && other != place {
					t.Fatalf("pools %d and %d of %d both have their turn at %v", place, other, of, turn)
				}
				turns[turn] = place
			}
		}
		if len(turns) != of {
			t.Errorf("%d pools have %d turns in a round; want one each", of, len(turns))
		}
	}
	for of := 1; of <= few; of++ {
		if wait := untilTurn(start, of-1, of); wait != 0 {
			t.Errorf("untilTurn of %d pools = %v; want 0", of, wait)
		}
	}
}

// Requests are ordered by workspace, namespace and name.
func TestCompare_OrdersByWorkspaceNamespaceAndName(t *testing.T) {
	t.Parallel()
	want := []mcreconcile.Request{
		Request("a", client.ObjectKey{Namespace: "a", Name: "b"}), Request("a", client.ObjectKey{Namespace: "b", Name: "a"}),
		Request("a", client.ObjectKey{Namespace: "b", Name: "b"}), Request("b", client.ObjectKey{Namespace: "a", Name: "a"}),
	}
	if got := slices.SortedFunc(slices.Values([]mcreconcile.Request{want[3], want[1], want[0], want[2]}), Compare); !slices.Equal(got, want) {
		t.Errorf("sorted are %v, want %v", got, want)
	}
}
