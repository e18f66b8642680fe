package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Many releases share a transaction, and each leaves its record.
func TestHistory_OfAStorm(t *testing.T) {
	c := newChronicle(t)
	const claims = 200
	c.storm(claims)
	if got := c.records(); got != claims {
		t.Errorf("the history has %d records, want %d", got, claims)
	}
	c.sameAsLedger()
}

// storm binds and releases so many claims at once, which share transactions.
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
		c.must(<-done)
	}
}

// records is how many tenures the history has.
func (c *chronicle) records() (n int) {
	c.t.Helper()
	_, err := Reader{Client: c.etcd.Client()}.Tenures(c.t.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		c.must(err)
		if h.State == "" {
			n++
		}
		return true
	})
	c.must(err)
	return n
}

// Releases of neighbours share a key of the history, as long as etcd takes it. One that has no
// longer what it releases fails alone.
func TestHistory_OfNeighbours(t *testing.T) {
	for _, limit := range []int{128, 24} {
		t.Run(fmt.Sprint("up to ", limit, " operations"), func(t *testing.T) {
			c := newChronicle(t)
			c.settings.MaxTxnOps = limit
			c.Allocator = c.reopen()
			const claims = 12
			var blocks []ledger.Block
			for i := range claims {
				blocks = append(blocks, c.bind(exactly(request("p", fmt.Sprint("c", i), 0), fmt.Sprintf("10.0.0.%d/32", 10+i))))
			}
			blocks[4].Revision-- // it was changed since
			inFlight, goOn := c.holdCommits()
			done := make(chan error, 1)
			go func() {
				_, err := c.Bind(t.Context(), request("p", "other", 30))
				done <- err
			}()
			<-inFlight
			answers := make(chan error, claims)
			for _, b := range blocks {
				go func() { answers <- c.ReleaseFor(t.Context(), b, ledger.CauseReleased) }()
			}
			c.waitQueued(claims)
			goOn()
			c.must(<-done)
			failed := 0
			for range claims {
				if err := <-answers; errors.Is(err, ledger.ErrChanged) {
					failed++
				} else {
					c.must(err)
				}
			}
			if got, keys := c.records(), len(c.keysWith("/history/")); failed != 1 || got != claims-1 || keys >= claims-1 {
				t.Errorf("%d releases failed, and the history has %d tenures at %d keys; want 1, and %d at fewer keys", failed, got, keys, claims-1)
			}
			c.sameAsLedger()
		})
	}
}
