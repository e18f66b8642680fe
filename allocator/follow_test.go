package allocator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// events follows the ledger from a revision until claim "end" has a block. The test binds that claim last.
func (c *chronicle) events(from int64) (events []ledger.Event) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	for e, err := range (Reader{Client: c.etcd.Client()}).Follow(ctx, from) {
		if err != nil {
			c.t.Fatalf("Follow from revision %d: %v", from, err)
		}
		if e.Tenure.Holder.Claim == "end" {
			return events
		}
		events = append(events, e)
	}
	c.t.Fatalf("Follow from revision %d ends after %v", from, events)
	return nil
}

func (c *chronicle) said(events []ledger.Event) string {
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = strings.TrimSpace(fmt.Sprintf("%s %s %s %s..%s %s%s", e.Kind, e.Tenure.Prefix, e.Tenure.Holder.Claim,
			c.minutes(e.Tenure.From), c.minutes(e.Tenure.Until), e.Tenure.State, e.Tenure.Cause))
	}
	return strings.Join(lines, "\n")
}

// Follow yields each allocation and each release once, whatever caused it, in the order of revisions. It can go on from
// any revision.
func TestFollow_TellsEachChangeOnce(t *testing.T) {
	c := newChronicle(t)
	b := c.bind(created("web", 28))
	c.wait()
	b = must.Get(c.Retained().HandOver(t.Context(), b, successor("web", "uid")))(t)
	must.Do(t, c.Retained().SetPolicy(t.Context(), b.Holder.Claim, ledger.Retain)) // is told to nobody
	must.Get(c.carve("p", "child", 26))(t)
	c.wait()
	c.free("uid")
	c.cooldown = time.Hour
	c.bind(request("p", "a", 28))
	c.free("a")
	c.bind(named("a2", "a", 28))
	kept := c.retain("a2", time.Time{})
	must.Get(c.Retained().HandOver(t.Context(), kept, successor("a", "a3")))(t)
	c.failed(c.bind(created("db", 30)))
	c.cooldown = 0
	must.Do(t, c.Pools().Retire(t.Context(), "child"))
	c.bind(request("p", "end", 28))

	web, db := allocationID("web"), allocationID("db")
	all := c.events(c.etcd.From)
	want := strings.Join([]string{
		fmt.Sprintf("Allocated 10.0.0.0/28 %s 0..now bound", web),
		fmt.Sprintf("Released 10.0.0.0/28 %s 0..1 Superseded", web),
		"Allocated 10.0.0.0/28 uid 1..now bound",
		"Allocated 10.0.0.64/26 child 1..now bound",
		"Released 10.0.0.0/28 uid 1..2 Released",
		"Allocated 10.0.0.0/28 a 2..now bound",
		"Released 10.0.0.0/28 a 2..2 Released",
		"Allocated 10.0.0.0/28 a2 2..now bound",
		"Released 10.0.0.0/28 a2 2..2 Superseded",
		"Allocated 10.0.0.0/28 a3 2..now bound",
		fmt.Sprintf("Allocated 10.0.0.16/30 %s 2..now bound", db),
		fmt.Sprintf("Released 10.0.0.16/30 %s 2..2 CreateFailed", db),
		"Released 10.0.0.64/26 child 1..2 PoolRetired",
	}, "\n")
	if got := c.said(all); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
	for i, e := range all {
		if e.Last != (i == len(all)-1 || all[i+1].Revision != e.Revision) {
			t.Errorf("event %d of revision %d says that it is the last: %t", i, e.Revision, e.Last)
		}
		if !e.Last {
			continue
		}
		if got := c.events(e.Revision + 1); c.said(got) != c.said(all[i+1:]) {
			t.Errorf("resumed after revision %d:\n%s\nwant\n%s", e.Revision, c.said(got), c.said(all[i+1:]))
		}
	}
}

// Releases that share a transaction are yielded one by one, each once.
func TestFollow_TellsTheReleasesOfATransactionOneByOne(t *testing.T) {
	c := newChronicle(t)
	const claims = 50
	c.storm(claims)
	c.bind(request("p", "end", 32))
	told := map[string]int{}
	revisions := []int64{0}
	for _, e := range c.events(c.etcd.From) {
		told[fmt.Sprint(e.Kind, e.Tenure.Holder.Claim)]++
		if revisions = append(revisions, e.Revision); !slices.IsSorted(revisions) {
			t.Fatalf("revision %d is told after %d", e.Revision, revisions[len(revisions)-2])
		}
	}
	for i := range claims {
		for _, kind := range []string{"Allocated", "Released"} {
			if n := told[fmt.Sprint(kind, "c", i)]; n != 1 {
				t.Errorf("%s c%d was told %d times, want once", kind, i, n)
			}
		}
	}
}

// Without a history, Follow yields releases, too, but without their time and cause.
func TestFollow_TellsReleasesWithoutAHistory(t *testing.T) {
	c := newChronicle(t)
	c.settings.History = 0
	c.Allocator = c.reopen()
	c.bind(request("p", "a", 28))
	c.free("a")
	c.bind(request("p", "end", 28))
	if got, want := c.said(c.events(c.etcd.From)), "Allocated 10.0.0.0/28 a 0..now bound\nReleased 10.0.0.0/28 a 0..now"; got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
}

// If etcd has compacted the revision, Follow fails, and names the first revision from which it has all events.
func TestFollow_SaysThatARevisionIsCompacted(t *testing.T) {
	c := newChronicle(t)
	c.bind(request("p", "a", 28))
	c.free("a")
	b := c.bind(request("p", "b", 28))
	must.Get(c.etcd.Client().Compact(t.Context(), b.Revision))(t)
	c.free("b")
	c.bind(request("p", "end", 28))
	var forgotten *ledger.ForgottenError
	for _, err := range (Reader{Client: c.etcd.Client()}).Follow(t.Context(), 1) {
		if !errors.As(err, &forgotten) {
			t.Fatalf("Follow from revision 1, which is compacted: %v, want a ForgottenError", err)
		}
	}
	if forgotten == nil || forgotten.Revision != 1 || forgotten.First != b.Revision+1 {
		t.Fatalf("Follow from revision 1: %+v, want that all is there from %d on", forgotten, b.Revision+1)
	}
	if got, want := c.said(c.events(forgotten.First)), "Released 10.0.0.0/28 b 0..0 Released"; got != want {
		t.Errorf("from there on told\n%s\nwant\n%s", got, want)
	}
}
