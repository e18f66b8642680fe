package inbox

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// used is a ledger whose pools hold that many blocks.
type used map[ledger.PoolID]int

func (u used) Pool(id ledger.PoolID) (ledger.Pool, bool) {
	return ledger.Pool{ID: id, Name: string(id), Cluster: "w"}, true
}

func (u used) InUse(id ledger.PoolID) bool { return u[id] > 0 }

// A pool whose last block is released is reconciled at once, so that it can be deleted. All other changes are gathered.
func TestChanged_OfAnEmptyPoolIsToldAtOnce(t *testing.T) {
	t.Parallel()
	news := New(directory.New(directory.Workspace{Cluster: "platform"}))
	t.Cleanup(news.Pools.ShutDown)
	news.Serve(used{"busy": 1, "free": 0})
	news.Changed("busy", "free")
	if n := news.Pools.Len(); n != 1 {
		t.Fatalf("%d pools are queued, want that which is free alone", n)
	}
	got, _ := news.Pools.Get()
	if want := Request("w", client.ObjectKey{Name: "free"}); got != want {
		t.Errorf("queued is %v, want %v", got, want)
	}
}

// A pool that is emptied again and again is told at once only as often as others are written.
func TestLately_ForgetsAfterAMoment(t *testing.T) {
	t.Parallel()
	var l lately
	start := time.Unix(0, 0)
	for _, tt := range []struct {
		id    ledger.PoolID
		after time.Duration
		want  bool
	}{{"p", 0, true}, {"p", coalesce / 2, false}, {"q", coalesce / 2, true}, {"p", coalesce, true}, {"q", coalesce, false}, {"p", 3 * coalesce, true}} {
		if got := l.first(tt.id, start.Add(tt.after)); got != tt.want {
			t.Errorf("first(%s) after %s = %t, want %t", tt.id, tt.after, got, tt.want)
		}
	}
	if len(l.since) != 1 || len(l.order) != 1 {
		t.Errorf("%d and %d pools are remembered, want the last alone", len(l.since), len(l.order))
	}
}
