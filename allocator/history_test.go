package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/embedetcd"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// chronicle is a ledger with pool p, 10.0.0.0/24, that keeps its history for a day, and a clock
// that is set by the minute.
type chronicle struct {
	*room
	settings Options
	cooldown time.Duration
}

func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	c := &chronicle{room: &room{fixture: &fixture{t: t, etcd: etcdtest.New(t)}, clock: newClock()}}
	c.settings = Options{History: 24 * time.Hour, Cooldown: func(Block) (time.Duration, error) { return c.cooldown, nil }}
	c.Allocator = c.reopen()
	c.pool("p", "10.0.0.0/24")
	return c
}

// reopen opens another Allocator on the ledger.
func (c *chronicle) reopen() *Allocator {
	c.t.Helper()
	h := engine.RealHooks()
	h.Now, h.After = c.clock.now, c.clock.after
	a, err := open(c.t.Context(), c.etcd.Client(), c.settings, h)
	if err != nil {
		c.t.Fatalf("open: %v", err)
	}
	c.t.Cleanup(func() { _ = a.Close() })
	return a
}

// minutes is a time as minutes since the clock began.
func (c *chronicle) minutes(at time.Time) string {
	if at.IsZero() {
		return "now"
	}
	return fmt.Sprint(int(at.Sub(newClock().now()).Minutes()))
}

// want fails the test unless those have and had addresses of a prefix, as "prefix claim from..until
// why", in the order of time.
func (c *chronicle) want(of string, want ...string) {
	c.t.Helper()
	var all []Tenure
	p := netip.Prefix{}
	if of != "" {
		p = prefix(of)
	}
	_, err := Reader{Client: c.etcd.Client()}.Tenures(c.t.Context(), p, func(h Tenure, err error) bool {
		if err != nil {
			c.t.Errorf("Tenures: %v", err)
		}
		all = append(all, h)
		return true
	})
	if err != nil {
		c.t.Errorf("Tenures: %v", err)
	}
	slices.SortStableFunc(all, func(a, b Tenure) int { return a.From.Compare(b.From) })
	got := []string{}
	for _, h := range all {
		why := string(h.Cause) + string(h.State)
		if h.Disputed && h.State == "" {
			why += " disputed"
		}
		if h.Adopted {
			why += " adopted"
		}
		got = append(got, fmt.Sprintf("%s %s %s..%s %s", h.Prefix, h.Holder.Claim, c.minutes(h.From), c.minutes(h.Until), why))
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("of %s the history is\n%s\nwant\n%s", of, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (c *chronicle) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chronicle) wait() { c.clock.advance(time.Minute) }

// Whatever frees a block leaves one record, with the time and the cause.
func TestHistory_OfEachRelease(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(c *chronicle)
		want []string
	}{
		"released": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.wait()
			c.free("a")
			c.wait()
			c.bind(request("p", "b", 28))
		}, []string{"10.0.0.0/28 a 0..1 Released", "10.0.0.0/28 b 2..now bound"}},
		"for another cause": {func(c *chronicle) {
			b := c.bind(request("p", "a", 28))
			c.wait()
			c.must(c.ReleaseFor(c.t.Context(), b, CauseWorkspaceGone))
		}, []string{"10.0.0.0/28 a 0..1 WorkspaceGone"}},
		"retained, and reused": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.wait()
			kept := c.retain("a", time.Time{})
			c.wait()
			_, err := c.Reuse(c.t.Context(), kept, successor("a", "later"))
			c.must(err)
		}, []string{"10.0.0.0/28 a 0..2 Superseded", "10.0.0.0/28 later 2..now bound"}},
		"retained, promised, and reused": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.wait()
			kept := c.retain("a", time.Time{})
			c.wait()
			kept, err := c.Promise(c.t.Context(), kept, time.Minute)
			c.must(err)
			c.wait()
			to := successor("a", "later")
			to.Answered = kept.BoundAt
			_, err = c.Reuse(c.t.Context(), kept, to)
			c.must(err)
		}, []string{"10.0.0.0/28 a 0..2 Superseded", "10.0.0.0/28 later 2..now bound"}},
		"a CREATE that failed": {func(c *chronicle) {
			b := c.reserve(reservation("web", 28))
			c.wait()
			c.free(b.Holder.Claim)
		}, []string{"10.0.0.0/28 " + string(reservation("web", 28).Holder.Claim) + " 0..1 CreateFailed"}},
		"a reservation that is confirmed": {func(c *chronicle) {
			b := c.reserve(reservation("web", 28))
			c.wait()
			_, _, err := c.Confirm(c.t.Context(), confirmation(b, "uid"))
			c.must(err)
			c.wait()
			c.free("uid")
		}, []string{"10.0.0.0/28 uid 0..2 Released"}},
		"a child pool": {func(c *chronicle) {
			_, err := c.carve("p", "child", 26)
			c.must(err)
			c.wait()
			c.must(c.Retire(c.t.Context(), "child"))
		}, []string{"10.0.0.0/26 child 0..1 PoolRetired"}},
		"a dispute": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.wait()
			c.adopt("b", "10.0.0.0/28", Bound)
			c.wait()
			c.free("a")
			c.wait()
			c.free("b")
		}, []string{"10.0.0.0/28 a 0..2 Released disputed", "10.0.0.0/28 b 1..3 Released adopted"}},
		"a clock that was set back": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.clock.advance(-time.Hour)
			c.free("a")
		}, []string{"10.0.0.0/28 a 0..0 Released"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChronicle(t)
			tt.do(c)
			c.want("10.0.0.3/32", tt.want...)
			c.want("", tt.want...)
			c.sameAsLedger(c.reopen())
		})
	}
}

// With a cooldown the time of a claim ends when it lets go. If an object of its name gets the block
// back, that has it from there on.
func TestHistory_WithACooldown(t *testing.T) {
	for name, tt := range map[string]struct {
		again Request
		want  []string
	}{
		"given back": {named("uid2", "a", 28), []string{"10.0.0.0/28 a 0..1 Released", "10.0.0.0/28 uid2 1..now bound"}},
		"given to others": {named("b", "b", 28), []string{
			"10.0.0.0/28 a 0..1 Released", "10.0.0.16/28 b 2..now bound",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChronicle(t)
			c.cooldown = time.Hour
			c.bind(request("p", "a", 28))
			c.wait()
			c.free("a")
			c.wait()
			c.want("10.0.0.0/24", "10.0.0.0/28 a 0..1 Released")
			c.Allocator = c.reopen() // what cools is read from the ledger
			c.bind(tt.again)
			c.want("10.0.0.0/24", tt.want...)
			c.sameAsLedger()
		})
	}
}

func TestHistory_ACreateThatGetsABlockBackAndFails(t *testing.T) {
	c := newChronicle(t)
	c.cooldown = time.Hour
	c.bind(request("p", "web", 28))
	c.wait()
	c.free("web")
	c.wait()
	b := c.reserve(reservation("web", 28))
	c.wait()
	c.free(b.Holder.Claim)
	c.wait()
	c.bind(named("uid", "web", 28))
	c.want("10.0.0.0/28",
		"10.0.0.0/28 web 0..1 Released", fmt.Sprintf("10.0.0.0/28 %s 2..3 CreateFailed", b.Holder.Claim), "10.0.0.0/28 uid 3..now bound")
}

// Of an address, all that cover it are found, and of a prefix what lies inside, too; in every
// space, and of the family asked for.
func TestHistory_Covering(t *testing.T) {
	c := newChronicle(t)
	c.pool("six", "100::/16") // its keys lie between those of 10.0.0.0/7
	_, err := c.carve("p", "child", 26)
	c.must(err)
	b := c.bind(exactly(request("child", "inside", 0), "10.0.0.5/32"))
	c.bind(exactly(request("p", "beside", 0), "10.0.0.128/25"))
	c.bind(exactly(request("six", "other", 0), "100::/64"))
	for _, claim := range []ClaimID{b.Holder.Claim, "beside", "other"} {
		c.wait()
		c.free(claim)
	}
	child, inside, beside := "10.0.0.0/26 child 0..now bound", "10.0.0.5/32 inside 0..1 Released", "10.0.0.128/25 beside 0..2 Released"
	c.want("10.0.0.5/32", inside, child)
	c.want("10.0.0.4/32", child)
	c.want("10.0.0.192/26", beside)
	c.want("10.0.0.0/7", inside, beside, child)
	c.want("10.0.0.0/24", inside, beside, child)
	c.want("100::1/128", "100::/64 other 0..3 Released")
	c.want("100::/8", "100::/64 other 0..3 Released")
	c.want("10.1.0.0/24")
}

// The answer to a release is lost: it leaves one record, or none if it was not done.
func TestHistory_OfAReleaseWhoseAnswerIsLost(t *testing.T) {
	for point, arm := range map[string]func(*engine.Hooks, func(SpaceID) error){
		"not sent":    func(h *engine.Hooks, f func(SpaceID) error) { h.BeforeCommit = f },
		"answer lost": func(h *engine.Hooks, f func(SpaceID) error) { h.AfterCommit = f },
	} {
		for _, cooldown := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(point, ", cooldown ", cooldown), func(t *testing.T) {
				c := newChronicle(t)
				c.cooldown = cooldown
				c.bind(request("p", "a", 28))
				c.wait()
				c.swap(func(h *engine.Hooks) { arm(h, once(errLost)) })
				c.free("a")
				c.want("10.0.0.0/28", "10.0.0.0/28 a 0..1 Released")
				c.sameAsLedger()
			})
		}
	}
}

// Many releases share a transaction, and each leaves its record.
func TestHistory_OfAStorm(t *testing.T) {
	c := newChronicle(t)
	inFlight, goOn := c.holdCommits()
	const claims = 200
	done := make(chan error, claims)
	for i := range claims {
		go func() {
			_, err := c.Bind(t.Context(), request("p", fmt.Sprint("c", i), 32))
			done <- errors.Join(err, c.Release(t.Context(), ClaimID(fmt.Sprint("c", i))))
		}()
	}
	<-inFlight
	goOn()
	for range claims {
		c.must(<-done)
	}
	if got := len(c.keysWith("/history/")); got != claims {
		t.Errorf("the history has %d records, want %d", got, claims)
	}
	c.sameAsLedger()
}

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
		c.free(ClaimID(claim))
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
	_, err = Reader{Client: c.etcd.Client()}.Tenures(t.Context(), netip.Prefix{}, func(h Tenure, err error) bool {
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
	for _, key := range []string{"10.0.0.0", "010.000.000.000-28/p", "010.000.000.000-28/p/xyz", "010.000.000.000-28/p/00000000000000ff"} {
		_, err := c.etcd.Client().Put(t.Context(), c.keys.History()+key, `{"v":9}`)
		c.must(err)
	}
	c.Allocator = c.reopen()
	c.clock.advance(48 * time.Hour)
	c.must(c.engine.PruneHistory(t.Context()))
	damaged := 0
	_, err := Reader{Client: c.etcd.Client()}.Tenures(t.Context(), netip.Prefix{}, func(_ Tenure, err error) bool {
		if !Unreadable(err) {
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
	c.adopt("b", "10.0.0.0/28", Bound)
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
