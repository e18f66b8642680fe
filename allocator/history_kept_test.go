package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestHistory_RecordsNothingWhenOff(t *testing.T) {
	c := newChronicle(t)
	c.bind(request("p", "a", 28))
	c.bind(request("p", "b", 28))
	c.free("a")
	c.settings.History = 0
	must.Do(t, c.Close())
	c.Allocator = c.reopen()
	off := c.Allocator
	must.Do(t, off.Release(t.Context(), "b"))
	c.want("", "10.0.0.0/28 a 0..0 Released")
	must.Do(t, off.engine.PruneHistory(t.Context()))
	c.want("")
}

// The history is pruned by age and by number, the oldest tenures first, many in a transaction.
func TestHistory_IsPrunedByAgeAndNumber(t *testing.T) {
	c := newChronicle(t)
	c.settings.MaxTxnOps = 16
	c.settings.MaxHistory = 41
	must.Do(t, c.Close())
	c.Allocator = c.reopen()
	small := c.Allocator
	c.bind(request("p", "held", 28))
	for i := range 100 {
		claim := fmt.Sprintf("c%02d", i)
		c.bind(request("p", claim, 32))
		if i%3 == 0 {
			c.wait() // several end in one minute
		}
		c.free(ledger.ClaimID(claim))
	}
	before := must.Get(c.etcd.Client().Get(t.Context(), "none"))(t)
	must.Do(t, small.engine.PruneHistory(t.Context()))
	after, err := c.etcd.Client().Get(t.Context(), "none")
	must.Do(t, err)
	if took := after.Header.Revision - before.Header.Revision; took != 4 {
		t.Errorf("59 records were deleted in %d transactions, want 4 of 16 at most", took)
	}
	var left []string
	_, err = Reader{Client: c.etcd.Client()}.Tenures(t.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		must.Do(t, err)
		left = append(left, string(h.Holder.Claim))
		return true
	})
	must.Do(t, err)
	slices.Sort(left)
	// Tenures of one minute are deleted in the order of their keys, which is the order of their revisions here.
	if len(left) != 42 || left[0] != "c59" || left[41] != "held" {
		t.Errorf("left are %d, %v; want the 41 latest, and the block that is held", len(left), left)
	}
	c.clock.advance(24*time.Hour - time.Minute)
	must.Do(t, small.engine.PruneHistory(t.Context()))
	if got := len(c.keysWith("/history/")); got != 1 {
		t.Errorf("after a day less a minute the history has %d records; want that of the last minute", got)
	}
	c.clock.advance(time.Minute)
	must.Do(t, small.engine.PruneHistory(t.Context()))
	c.want("", "10.0.0.0/28 held 0..now bound")
	c.sameAsLedger()
}

// A record that cannot be read stays, and stops neither reads nor the pruning.
func TestHistory_KeepsRecordsThatCannotBeRead(t *testing.T) {
	c := newChronicle(t)
	c.bind(request("p", "a", 28))
	c.free("a")
	for _, key := range []string{"10.0.0.0", "010.000.000.000-24/p", "010.000.000.000-24/p/xyz", "010.000.000.000-24/p/00000000000000ff.000"} {
		must.Get(c.etcd.Client().Put(t.Context(), c.keys.History()+key, `{"v":9}`))(t)
	}
	c.Allocator = c.reopen()
	c.clock.advance(48 * time.Hour)
	must.Do(t, c.engine.PruneHistory(t.Context()))
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

// A ledger that is restored from an older copy has lost the later tenures. The tenure of an adopted block says that it
// was adopted, and begins with the adoption.
func TestHistory_SaysThatABlockWasAdopted(t *testing.T) {
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

	must.Do(t, c.Close())
	c.etcd = copied
	c.Allocator = c.reopen()
	c.free("a")
	c.wait()
	c.adopt("b", "10.0.0.0/28")
	c.want("10.0.0.0/28", "10.0.0.0/28 a 0..2 Released", "10.0.0.0/28 b 3..now bound adopted")
}

// copyTo copies the ledger, as a snapshot would.
func (c *chronicle) copyTo(to *clientv3.Client) {
	c.t.Helper()
	all := must.Get(c.etcd.Client().Get(c.t.Context(), store.DefaultPrefix, clientv3.WithPrefix()))(c.t)
	for _, kv := range all.Kvs {
		must.Get(to.Put(c.t.Context(), string(kv.Key), string(kv.Value)))(c.t)
	}
}

// If etcd takes fewer operations in a transaction than the option says, the history is pruned in smaller transactions.
func TestHistory_IsPrunedInTransactionsThatEtcdTakes(t *testing.T) {
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
	must.Do(t, c.engine.PruneHistory(t.Context()))
	c.want("")
}

// Many releases share a transaction, and each leaves a record.
func TestHistory_RecordsEachReleaseOfATransaction(t *testing.T) {
	c := newChronicle(t)
	const claims = 200
	c.storm(claims)
	if got := c.records(); got != claims {
		t.Errorf("the history has %d records, want %d", got, claims)
	}
	c.sameAsLedger()
}

// storm binds and releases the blocks of many claims at once, which share transactions.
func (c *chronicle) storm(claims int) {
	c.t.Helper()
	inFlight, goOn := c.holdCommits()
	done := make(chan error, claims)
	for i := range claims {
		go func() {
			_, err := c.Bind(c.t.Context(), request("p", fmt.Sprint("c", i), 32))
			done <- errors.Join(err, c.Release(c.t.Context(), ledger.ClaimID(fmt.Sprint("c", i))))
		}()
	}
	<-inFlight
	goOn()
	for range claims {
		must.Do(c.t, <-done)
	}
}

// records returns how many tenures the history has.
func (c *chronicle) records() (n int) {
	c.t.Helper()
	_, err := Reader{Client: c.etcd.Client()}.Tenures(c.t.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		must.Do(c.t, err)
		if h.State == "" {
			n++
		}
		return true
	})
	must.Do(c.t, err)
	return n
}

// Releases of neighbouring blocks in one transaction share a key of the history, unless the key would be too large for
// etcd. A release whose block has changed fails without failing the others.
func TestHistory_PutsNeighboursIntoOneKey(t *testing.T) {
	for _, limit := range []int{128, 24} {
		t.Run(fmt.Sprint("up to ", limit, " operations"), func(t *testing.T) {
			c := newChronicle(t)
			c.settings.MaxTxnOps = limit
			c.Allocator = c.reopen()
			const claims = 12
			answers := make([]error, claims)
			releases := make([]func(), claims)
			for i := range claims {
				b := c.bind(exactly(request("p", fmt.Sprint("c", i), 0), fmt.Sprintf("10.0.0.%d/32", 10+i)))
				if i == 4 {
					b.Revision-- // it was changed since
				}
				releases[i] = func() { answers[i] = c.ReleaseFor(t.Context(), b, ledger.CauseReleased) }
			}
			c.grouped(func() { c.bind(request("p", "other", 30)) }, releases...)
			must.Be(t, answers[4], ledger.ErrChanged)
			answers[4] = nil
			must.Do(t, errors.Join(answers...))
			if got, keys := c.records(), len(c.keysWith("/history/")); got != claims-1 || keys >= claims-1 {
				t.Errorf("the history has %d tenures at %d keys; want %d at fewer keys", got, keys, claims-1)
			}
			c.sameAsLedger()
		})
	}
}
