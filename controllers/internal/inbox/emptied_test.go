package inbox

import (
	"maps"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// used is a ledger whose pools hold that many blocks.
type used map[ledger.PoolID]int

func (u used) Get(id ledger.PoolID) (ledger.Pool, bool) {
	return ledger.Pool{ID: id, Name: string(id), Cluster: "w"}, true
}

func (u used) InUse(id ledger.PoolID) bool { return u[id] > 0 }

// A pool whose last block is released is reconciled at once, so that it can be deleted. All other changes are gathered.
func TestChanged_RequeuesAnEmptiedPoolAtOnce(t *testing.T) {
	t.Parallel()
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	news.Changed(used{"busy": 1, "free": 0}, "busy", "free")
	if n := news.Pools.Len(); n != 1 {
		t.Fatalf("%d pools are queued, want that which is free alone", n)
	}
	got, _ := news.Pools.Get()
	if want := Request("w", client.ObjectKey{Name: "free"}); got != want {
		t.Errorf("queued is %v, want %v", got, want)
	}
}

// A pool that was empty before a change takes its turn.
func TestChanged_LetsAPoolThatStaysEmptyWait(t *testing.T) {
	t.Parallel()
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	news.Changed(used{"free": 0}, "free")
	got, _ := news.Pools.Get()
	news.Pools.Done(got)
	news.Changed(used{"free": 0}, "free")
	if n := news.Pools.Len(); n != 0 {
		t.Errorf("%d pools are queued at once, want none: the pool was empty before", n)
	}
}

// A pool that was just made takes its turn, too, and so do those above it: its first block comes a moment later.
func TestChanged_LetsANewPoolWait(t *testing.T) {
	t.Parallel()
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	news.Changed(family{made: time.Now()}, "grandchild")
	if n := news.Pools.Len(); n != 0 {
		t.Errorf("%d pools are queued at once when one is made, want none", n)
	}
}

// A pool that is emptied again and again is requeued at once only as often as others are written.
func TestEmptied_RequeuesOnceAMoment(t *testing.T) {
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

// family is a root pool, with a derived pool below it, and another one below that, which is held or not.
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

// A pool that the system has made counts as use of the pools above only while it is used: these are reconciled with it, at once if
// it is emptied.
func TestChanged_RequeuesThePoolsAboveAnEmptiedOne(t *testing.T) {
	t.Parallel()
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	news.Changed(family{held: true}, "grandchild")
	if n := news.Pools.Len(); n != 0 {
		t.Errorf("%d pools are queued at once while it is held, want none", n)
	}
	news.Changed(family{}, "grandchild")
	if n := news.Pools.Len(); n != 3 {
		t.Errorf("%d pools are queued at once when it is emptied, want it and the two above", n)
	}
}

// The pools above a derived one are reconciled when it gets its first block, however long after it was made that is, and also if
// nothing was known of it: after a restart.
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

// A pool that counts for another workspace than its own is one of as many as that workspace may have: with it, there is room for one
// of that workspace's own.
func TestRetired_WakesTheWorkspaceThatThePoolCountedFor(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]*ledger.Derived{
		"address space": {Of: "root", Workspace: "w"}, "pool for all workspaces": {Class: "net", By: "w"},
	} {
		news := New(directory.New(directory.Workspace{Cluster: "platform"}))
		t.Cleanup(news.Pools.ShutDown)
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
