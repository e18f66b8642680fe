package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestHistory_Off(t *testing.T) {
	c := newChronicle(t)
	c.settings.History = 0
	off := c.reopen()
	c.bind(request("p", "a", 28))
	c.bind(request("p", "b", 28))
	c.free("a")
	off.catchUp(t)
	c.must(off.Release(t.Context(), "b"))
	c.want("", "10.0.0.0/28 a 0..0 Released")
	c.must(off.engine.PruneHistory(t.Context()))
	c.want("")
}

// The history is pruned by age and by number, the oldest first, many in a transaction.
func TestHistory_Pruned(t *testing.T) {
	c := newChronicle(t)
	c.settings.MaxTxnOps = 16
	c.settings.MaxHistory = 41
	small := c.reopen()
	c.bind(request("p", "held", 28))
	for i := range 100 {
		claim := fmt.Sprintf("c%02d", i)
		c.bind(request("p", claim, 32))
		if i%3 == 0 {
			c.wait() // several end in one minute
		}
		c.free(ledger.ClaimID(claim))
	}
	before, err := c.etcd.Client().Get(t.Context(), "none")
	c.must(err)
	c.must(small.engine.PruneHistory(t.Context()))
	after, err := c.etcd.Client().Get(t.Context(), "none")
	c.must(err)
	if took := after.Header.Revision - before.Header.Revision; took != 4 {
		t.Errorf("59 records were deleted in %d transactions, want 4 of 16 at most", took)
	}
	var left []string
	_, err = Reader{Client: c.etcd.Client()}.Tenures(t.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		c.must(err)
		left = append(left, string(h.Holder.Claim))
		return true
	})
	c.must(err)
	slices.Sort(left)
	// Those of one minute go in the order of their keys, which is that of their revisions here.
	if len(left) != 42 || left[0] != "c59" || left[41] != "held" {
		t.Errorf("left are %d, %v; want the 41 latest, and the block that is held", len(left), left)
	}
	c.clock.advance(24*time.Hour - time.Minute)
	c.must(small.engine.PruneHistory(t.Context()))
	if got := len(c.keysWith("/history/")); got != 1 {
		t.Errorf("after a day less a minute the history has %d records; want that of the last minute", got)
	}
	c.clock.advance(time.Minute)
	c.must(small.engine.PruneHistory(t.Context()))
	c.want("", "10.0.0.0/28 held 0..now bound")
	c.sameAsLedger(small)
}

// A record that cannot be read stops nothing, and stays.
func TestHistory_Unreadable(t *testing.T) {
	c := newChronicle(t)
	c.bind(request("p", "a", 28))
	c.free("a")
	for _, key := range []string{"10.0.0.0", "010.000.000.000-24/p", "010.000.000.000-24/p/xyz", "010.000.000.000-24/p/00000000000000ff.000"} {
		_, err := c.etcd.Client().Put(t.Context(), c.keys.History()+key, `{"v":9}`)
		c.must(err)
	}
	c.Allocator = c.reopen()
	c.clock.advance(48 * time.Hour)
	c.must(c.engine.PruneHistory(t.Context()))
	damaged := 0
	_, err := Reader{Client: c.etcd.Client()}.Tenures(t.Context(), netip.Prefix{}, func(_ ledger.Tenure, err error) bool {
		if !ledger.Unreadable(err) {
			t.Errorf("Tenures tells %v, want a key that cannot be read", err)
		}
		damaged++
		return true
	})
	if err != nil || damaged != 4 {
		t.Errorf("Tenures: %v, and %d keys that cannot be read; want 4", err, damaged)
	}
	c.bind(request("p", "b", 28))
}

// A ledger that is restored from an older copy has lost what came after. The blocks that were
// adopted since say so, and claim no more than is known.
func TestHistory_OfARestoredLedger(t *testing.T) {
	c := newChronicle(t)
	c.bind(request("p", "a", 28))
	c.wait()
	dir := t.TempDir()
	copied := etcdtest.NewWith(t, embedetcd.Options{Dir: dir})
	c.copyTo(copied.Client())
	c.free("a")
	c.bind(request("p", "b", 28))
	c.wait()
	c.want("10.0.0.0/28", "10.0.0.0/28 a 0..1 Released", "10.0.0.0/28 b 1..now bound")

	c.must(c.Close())
	c.etcd = copied
	c.Allocator = c.reopen()
	c.adopt("b", "10.0.0.0/28", ledger.Bound)
	c.wait()
	c.free("a")
	c.want("10.0.0.0/28", "10.0.0.0/28 a 0..3 Released disputed", "10.0.0.0/28 b 2..now bound adopted")
}

// copyTo copies the ledger, as a snapshot would.
func (c *chronicle) copyTo(to *clientv3.Client) {
	c.t.Helper()
	all, err := c.etcd.Client().Get(c.t.Context(), store.DefaultPrefix, clientv3.WithPrefix())
	c.must(err)
	for _, kv := range all.Kvs {
		_, err := to.Put(c.t.Context(), string(kv.Key), string(kv.Value))
		c.must(err)
	}
}

// Where etcd takes fewer operations in a transaction than the option says, the history is pruned in smaller ones.
func TestHistory_PrunedInTransactionsThatEtcdTakes(t *testing.T) {
	c := &chronicle{room: &room{fixture: &fixture{t: t, etcd: etcdtest.NewWith(t, embedetcd.Options{MaxTxnOps: 16})}, clock: newClock()}}
	c.settings = Options{History: 24 * time.Hour, MaxTxnOps: 1000}
	c.Allocator = c.reopen()
	c.pool("p", "10.0.0.0/24")
	for i := range 40 {
		claim := fmt.Sprint("c", i)
		c.bind(request("p", claim, 32))
		c.free(ledger.ClaimID(claim))
	}
	c.clock.advance(25 * time.Hour)
	c.must(c.engine.PruneHistory(t.Context()))
	c.want("")
}
