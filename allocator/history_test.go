package allocator

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// chronicle is a ledger that keeps its history for a day. It has the pool p, 10.0.0.0/24, and a clock that the test
// sets by the minute.
type chronicle struct {
	*room
	settings Options
	cooldown time.Duration
}

func newChronicle(t *testing.T) *chronicle {
	t.Helper()
	c := &chronicle{room: &room{fixture: &fixture{t: t, etcd: etcdtest.New(t)}, clock: newClock()}}
	c.settings = Options{History: 24 * time.Hour, Cooldown: func(ledger.Block) (time.Duration, error) { return c.cooldown, nil }}
	c.Allocator = c.reopen()
	c.pool("p", "10.0.0.0/24")
	return c
}

// reopen opens another Allocator on the ledger.
func (c *chronicle) reopen() *Allocator {
	c.t.Helper()
	h := engine.RealHooks()
	h.Now, h.After = c.clock.now, c.clock.after
	a := must.Get(open(c.t.Context(), c.etcd.Client(), c.settings, h))(c.t)
	c.t.Cleanup(func() { _ = a.Close() })
	return a
}

// minutes returns a time as minutes since the clock began.
func (c *chronicle) minutes(at time.Time) string {
	if at.IsZero() {
		return "now"
	}
	return fmt.Sprint(int(at.Sub(newClock().now()).Minutes()))
}

// want fails the test unless these are the tenures of a prefix, as "prefix claim from..until why", in the order of
// time.
func (c *chronicle) want(of string, want ...string) {
	c.t.Helper()
	var all []ledger.Tenure
	p := netip.Prefix{}
	if of != "" {
		p = prefix(of)
	}
	_, err := Reader{Client: c.etcd.Client()}.Tenures(c.t.Context(), p, func(h ledger.Tenure, err error) bool {
		if err != nil {
			c.t.Errorf("Tenures: %v", err)
		}
		all = append(all, h)
		return true
	})
	if err != nil {
		c.t.Errorf("Tenures: %v", err)
	}
	slices.SortStableFunc(all, func(a, b ledger.Tenure) int { return a.From.Compare(b.From) })
	got := []string{}
	for _, h := range all {
		why := string(h.Cause) + string(h.State)
		if h.Adopted {
			why += " adopted"
		}
		got = append(got, fmt.Sprintf("%s %s %s..%s %s", h.Prefix, h.Holder.Claim, c.minutes(h.From), c.minutes(h.Until), why))
	}
	if !slices.Equal(got, want) {
		c.t.Errorf("of %s the history is\n%s\nwant\n%s", of, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (c *chronicle) wait() { c.clock.advance(time.Minute) }

// cool binds and frees a block for a claim, so that it cools for an hour. Then it opens the ledger again.
func (c *chronicle) cool(claim ledger.ClaimID) {
	c.t.Helper()
	c.cooldown = time.Hour
	c.bind(request("p", string(claim), 28))
	c.wait()
	c.free(claim)
	c.wait()
	c.want("10.0.0.0/24", fmt.Sprintf("10.0.0.0/28 %s 0..1 Released", claim))
	c.Allocator = c.reopen()
}

// Each way to free a block leaves one record, with the time and the cause.
func TestHistory_RecordsEachRelease(t *testing.T) {
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
			must.Do(t, c.ReleaseFor(c.t.Context(), b, ledger.CauseWorkspaceGone))
		}, []string{"10.0.0.0/28 a 0..1 WorkspaceGone"}},
		"retained, and handed over": {func(c *chronicle) {
			c.bind(request("p", "a", 28))
			c.wait()
			kept := c.retain("a", time.Time{})
			c.wait()
			must.Get(c.Retained().HandOver(c.t.Context(), kept, successor("a", "later")))(t)
		}, []string{"10.0.0.0/28 a 0..2 Superseded", "10.0.0.0/28 later 2..now bound"}},
		"a CREATE that failed": {func(c *chronicle) {
			b := c.bind(created("web", 28))
			c.wait()
			c.failed(b)
		}, []string{fmt.Sprint("10.0.0.0/28 ", allocationID("web"), " 0..1 CreateFailed")}},
		"a CREATE whose claim is deleted": {func(c *chronicle) {
			b := c.bind(created("web", 28))
			c.wait()
			c.free(b.Holder.Claim)
		}, []string{fmt.Sprint("10.0.0.0/28 ", allocationID("web"), " 0..1 Released")}},
		"a block that was handed over": {func(c *chronicle) {
			b := c.bind(created("web", 28))
			c.wait()
			must.Get(c.Retained().HandOver(c.t.Context(), b, successor("web", "uid")))(t)
			c.wait()
			c.free("uid")
		}, []string{fmt.Sprint("10.0.0.0/28 ", allocationID("web"), " 0..1 Superseded"), "10.0.0.0/28 uid 1..2 Released"}},
		"a child pool": {func(c *chronicle) {
			must.Get(c.carve("p", "child", 26))(t)
			c.wait()
			must.Do(t, c.Pools().Retire(c.t.Context(), "child"))
		}, []string{"10.0.0.0/26 child 0..1 PoolRetired"}},
		"given back within its cooldown": {func(c *chronicle) {
			c.cool("a")
			c.bind(named("uid2", "a", 28))
		}, []string{"10.0.0.0/28 a 0..1 Released", "10.0.0.0/28 uid2 1..now bound"}},
		"a CREATE within its cooldown, which failed": {func(c *chronicle) {
			c.cool("web")
			b := c.bind(created("web", 28))
			c.want("", "10.0.0.0/28 web 0..1 Released", fmt.Sprintf("10.0.0.0/28 %s 1..now bound", b.Holder.Claim))
			c.wait()
			c.failed(b)
			c.wait()
			c.bind(named("uid", "web", 28))
		}, []string{
			"10.0.0.0/28 web 0..1 Released", fmt.Sprint("10.0.0.0/28 ", allocationID("web"), " 2..3 CreateFailed"), "10.0.0.0/28 uid 3..now bound",
		}},
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
			c.sameAsLedger()
		})
	}
}

// For an address, all tenures that cover it are found; for a prefix, also those inside it: in every space, and only of
// the same family.
func TestHistory_FindsTheTenuresThatCoverAPrefix(t *testing.T) {
	c := newChronicle(t)
	c.pool("six", "100::/16") // its keys lie between those of 10.0.0.0/7
	must.Get(c.carve("p", "child", 26))(t)
	b := c.bind(exactly(request("child", "inside", 0), "10.0.0.5/32"))
	c.bind(exactly(request("p", "beside", 0), "10.0.0.128/25"))
	c.bind(exactly(request("six", "other", 0), "100::/64"))
	for _, claim := range []ledger.ClaimID{b.Holder.Claim, "beside", "other"} {
		c.wait()
		c.free(claim)
	}
	child, inside, beside := "10.0.0.0/26 child 0..now bound", "10.0.0.5/32 inside 0..1 Released", "10.0.0.128/25 beside 0..2 Released"
	c.want("10.0.0.5/32", inside, child)
	c.want("10.0.0.4/32", child)
	c.want("10.0.0.192/26", beside)
	c.want("10.0.0.0/7", beside, inside, child)
	c.want("10.0.0.0/24", beside, inside, child)
	c.want("100::1/128", "100::/64 other 0..3 Released")
	c.want("100::/8", "100::/64 other 0..3 Released")
	c.want("10.1.0.0/24")
}

// If the answer to a release is lost, the release leaves one record, or none if it was not committed.
func TestHistory_RecordsOneReleaseIfItsAnswerIsLost(t *testing.T) {
	for point, arm := range losses {
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
