package allocator

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// successor returns another holder of the same name.
func successor(name, id string) Successor {
	h := request("p", name, 0).Holder
	h.Claim = ledger.ClaimID(id)
	return Successor{Holder: h}
}

// Another holder of the same name gets the block, whether the former claim is gone or is the same claim under another
// ID. The block is bound then, and has no end, and the former holder has no block. A second HandOver returns the same
// block.
func TestHandOver_GivesTheBlockToAHolderOfTheSameName(t *testing.T) {
	for name, tt := range map[string]struct {
		from, to ledger.ClaimID
		retained bool
	}{
		"of a retained block":              {"c", "later", true},
		"of a retained block of a CREATE":  {allocationID("c"), "later", true},
		"from an allocation ID to the UID": {allocationID("c"), "uid", false},
		"from the UID to an allocation ID": {"uid", allocationID("c"), false},
		"between allocation IDs":           {allocationID("c"), allocationID("another"), false},
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			r := request("p", "c", 26)
			r.Holder.Claim, r.Policy, r.Class = tt.from, ledger.Retain, "k"
			b := l.bind(r)
			if tt.retained {
				b = l.retain(string(tt.from), time.Now().Add(time.Hour))
			}
			next := successor("c", string(tt.to))
			next.Policy = ledger.Delete
			got, err := l.Retained().HandOver(t.Context(), b, next)
			if err != nil || got.Prefix != b.Prefix || got.State != ledger.Bound || !got.Until.IsZero() || got.Holder != next.Holder ||
				got.Policy != ledger.Delete || got.Class != "k" {
				t.Fatalf("HandOver = %+v, %v; want %s bound to %s", got, err, b.Prefix, tt.to)
			}
			if again, err := l.Retained().HandOver(t.Context(), b, next); err != nil || again != got {
				t.Errorf("HandOver again = %+v, %v; want %+v", again, err, got)
			}
			if still, ok, err := l.Lookup(t.Context(), tt.from); ok || err != nil {
				t.Errorf("the former holder has %+v, %t, %v; want nothing", still, ok, err)
			}
			must.Be(t, l.ReleaseFor(t.Context(), b, ledger.CauseReleased), ledger.ErrChanged)
			must.Do(t, l.Release(t.Context(), tt.from))
			l.wantBlocks(fmt.Sprint(b.Prefix, " ", tt.to, " bound"))
			if found, ok, err := l.again().Lookup(t.Context(), tt.to); err != nil || !ok || found != got {
				t.Errorf("another Allocator reads %+v, %t, %v; want %+v", found, ok, err, got)
			}
			l.sameAsLedger()
		})
	}
}

func TestHandOver_KeepsThePolicy(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	r := created("c", 26)
	r.Policy = ledger.Retain
	if got, err := l.Retained().HandOver(t.Context(), l.bind(r), successor("c", "uid")); err != nil || got.Policy != ledger.Retain {
		t.Errorf("HandOver = %+v, %v; want the policy of the former holder, Retain", got, err)
	}
}

func TestHandOver_SaysWhyItRefuses(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	live := l.bind(created("live", 28))
	l.bind(request("p", "c", 28))
	busy := l.bind(named("busy", "c", 28))
	kept := l.retain("c", time.Time{})
	child := must.Get(l.carve("p", "child", 28))(t)
	pool, _, err := l.Lookup(t.Context(), ledger.ClaimID(child.ID))
	must.Do(t, err)
	foreign, elsewhere := successor("c", "u1"), successor("c", "u2")
	foreign.Holder.Cluster, elsewhere.Holder.Namespace = "other", "other"
	old, cools := kept, kept
	old.Revision--
	cools.State = ledger.Cooling
	ofPool := Successor{Holder: pool.Holder}
	ofPool.Holder.Claim = "u6"
	for name, tt := range map[string]struct {
		block ledger.Block
		to    Successor
		want  error
	}{
		"of another name":           {kept, successor("d", "u0"), ledger.ErrInvalid},
		"of a live claim's name":    {live, successor("c", "u3"), ledger.ErrInvalid},
		"of another workspace":      {kept, foreign, ledger.ErrInvalid},
		"of another namespace":      {kept, elsewhere, ledger.ErrInvalid},
		"by the same claim":         {kept, successor("c", "c"), ledger.ErrInvalid},
		"by nobody":                 {kept, successor("c", ""), ledger.ErrInvalid},
		"of a block that cools":     {cools, successor("c", "u3"), ledger.ErrInvalid},
		"as it was before":          {old, successor("c", "u4"), ledger.ErrChanged},
		"by a holder with a block":  {kept, successor("c", "busy"), ledger.ErrChanged},
		"of the block of a child":   {pool, ofPool, ledger.ErrPoolInUse},
		"of a block that was freed": {ledger.Block{Prefix: prefix("10.0.0.192/26"), Space: kept.Space, Pool: "p", Holder: kept.Holder, State: ledger.Retained, Revision: 1}, successor("c", "u5"), ledger.ErrChanged},
	} {
		if b, err := l.Retained().HandOver(t.Context(), tt.block, tt.to); !errors.Is(err, tt.want) {
			t.Errorf("%s: HandOver = %+v, %v; want %v", name, b, err, tt.want)
		}
	}
	for _, want := range []ledger.Block{live, busy, kept, pool} {
		if b, _, err := l.Lookup(t.Context(), want.Holder.Claim); err != nil || b != want {
			t.Errorf("the block is %+v, %v; want it as it was, %+v", b, err, want)
		}
	}
	l.sameAsLedger()
}

// A successor got the block, and has lost it. Another claim has a block at the same prefix now. A repeated HandOver
// fails, and leaves the block of the other claim.
func TestHandOver_FailsAfterTheSuccessorHasLostTheBlock(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	b := l.bind(created("c", 26))
	must.Get(l.Retained().HandOver(t.Context(), b, successor("c", "uid")))(t)
	l.free("uid")
	l.bind(request("p", "other", 26))
	must.Fail(l.Retained().HandOver(t.Context(), b, successor("c", "uid")))(t, ledger.ErrChanged)
	l.wantBlocks(fmt.Sprint(b.Prefix, " other bound"))
}

// rivals are calls that want the block of a CREATE. Each returns how it has ended.
type rivals []func(ledger.Block) error

// passing returns the calls of a race for a block: two give it to different holders, and one frees it.
func (c *chronicle) passing() rivals {
	to := func(id string) func(ledger.Block) error {
		return func(b ledger.Block) error {
			_, err := c.Retained().HandOver(c.t.Context(), b, successor("web", id))
			return err
		}
	}
	return rivals{to("one"), to("other"), func(b ledger.Block) error {
		return c.ReleaseFor(c.t.Context(), b, ledger.CauseCreateFailed)
	}}
}

// Of two HandOvers and a Release one succeeds, whichever is first, in one transaction or in several. The block has one
// holder at each revision, and is free only if it was released.
func TestHandOver_LetsOneRivalWin(t *testing.T) {
	for name, run := range map[string]func(c *chronicle, calls []func()){
		"in one transaction": func(c *chronicle, calls []func()) {
			c.grouped(func() { _, _ = c.Bind(c.t.Context(), request("p", "full", 20)) }, calls...)
		},
		"at once": func(_ *chronicle, calls []func()) {
			var all sync.WaitGroup
			for _, call := range calls {
				all.Go(call)
			}
			all.Wait()
		},
	} {
		for first := range 3 {
			t.Run(fmt.Sprint(name, ", ", first), func(t *testing.T) {
				c := newChronicle(t)
				b := c.bind(created("web", 28))
				rivals := c.passing()
				ended, calls := make([]error, len(rivals)), make([]func(), len(rivals))
				for i := range rivals {
					n := (first + i) % len(rivals)
					calls[i] = func() { ended[n] = rivals[n](b) }
				}
				run(c, calls)
				c.wantOneOf(b, ended)
			})
		}
	}
}

// wantOneOf fails the test unless one of the calls of passing has succeeded, and the ledger has the block as that call
// leaves it. At no revision in between may the block be free, unless that call has freed it.
func (c *chronicle) wantOneOf(b ledger.Block, ended []error) {
	c.t.Helper()
	won := -1
	for n, err := range ended {
		switch {
		case err == nil && won < 0:
			won = n
		case !errors.Is(err, ledger.ErrChanged):
			c.t.Errorf("call %d ended with %v; want one to succeed, and %v for the others: %v", n, err, ledger.ErrChanged, ended)
		}
	}
	if won < 0 {
		c.t.Fatalf("none has succeeded: %v", ended)
	}
	id := b.Holder.Claim
	told := fmt.Sprintf("Allocated 10.0.0.0/28 %s 0..now bound\n", id)
	if won == 2 {
		c.wantBlocks()
		told += fmt.Sprintf("Released 10.0.0.0/28 %s 0..0 CreateFailed", id)
	} else {
		heir := []string{"one", "other"}[won]
		c.wantBlocks(fmt.Sprintf("10.0.0.0/28 %s bound", heir))
		told += fmt.Sprintf("Released 10.0.0.0/28 %s 0..0 Superseded\nAllocated 10.0.0.0/28 %s 0..now bound", id, heir)
	}
	c.bind(exactly(request("p", "end", 0), "10.0.0.128/28"))
	events := c.events(c.etcd.From)
	if got := c.said(events); got != told {
		c.t.Errorf("told\n%s\nwant\n%s", got, told)
	}
	if won != 2 && len(events) == 3 && events[1].Revision != events[2].Revision {
		c.t.Errorf("the block was free from revision %d to %d", events[1].Revision, events[2].Revision)
	}
}

// If two callers ask for the same HandOver at once, both succeed.
func TestHandOver_SucceedsForTwoCallersAtOnce(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	for i := range 10 {
		name := fmt.Sprint("c", i)
		b := l.bind(created(name, 28))
		var got [2]ledger.Block
		var all sync.WaitGroup
		for n := range got {
			all.Go(func() {
				var err error
				if got[n], err = l.Retained().HandOver(t.Context(), b, successor(name, "uid-"+name)); err != nil {
					t.Errorf("HandOver = %v", err)
				}
			})
		}
		all.Wait()
		if got[0] != got[1] || got[0].Prefix != b.Prefix {
			t.Errorf("HandOver = %+v and %+v; want %s of one holder", got[0], got[1], b.Prefix)
		}
	}
	l.holds(10)
}

// While blocks pass from one ID to the other and back, no other claim gets their addresses.
func TestHandOver_NeverFreesTheBlockInBetween(t *testing.T) {
	l := withPool(t, "10.0.0.0/28")
	b := l.bind(created("web", 28))
	stop, thief := make(chan struct{}), sync.WaitGroup{}
	thief.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if stolen, err := l.Bind(t.Context(), request("p", "thief", 32)); err == nil {
				t.Errorf("another claim was given %s", stolen.Prefix)
				return
			}
		}
	})
	for i := range 50 {
		to := successor("web", "uid")
		if i%2 > 0 {
			to.Holder.Claim = allocationID("web")
		}
		b = must.Get(l.Retained().HandOver(t.Context(), b, to))(t)
		if i%5 == 0 {
			b = l.retain(string(b.Holder.Claim), time.Time{})
		}
	}
	close(stop)
	thief.Wait()
	l.holds(1)
}
