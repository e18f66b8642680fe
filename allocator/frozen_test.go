package allocator

import (
	"errors"
	"testing"
	"time"
)

func frozenLedger(o *Options) { o.Frozen = true }

// wantFrozen fails the test unless a claim is refused because the pool is frozen.
func (l *ledger) wantFrozen(pool PoolID, isLost bool) {
	l.t.Helper()
	var frozen *FrozenError
	if b, err := l.Bind(l.t.Context(), request(pool, "new", 26)); !errors.As(err, &frozen) || frozen.Lost != isLost {
		l.t.Errorf("Bind = %v, %v; want it frozen, lost: %t", b, err, isLost)
	}
}

func (l *ledger) thaw(pool PoolID, changes int64) {
	l.t.Helper()
	if err := l.Thaw(l.t.Context(), pool, changes); err != nil {
		l.t.Fatal(err)
	}
}

// A frozen pool gives nothing new out, and does all else.
func TestFrozen(t *testing.T) {
	woken := make(chan ClaimID, 1)
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	held := l.bind(request("p", "held", 26))
	l.Allocator = l.open(frozenLedger, func(o *Options) { o.Wake = func(h Holder) { woken <- h.Claim } })

	l.wantFrozen("p", false)
	if again := l.bind(request("p", "held", 26)); again != held {
		t.Errorf("the block of a bound claim became %v", again)
	}
	l.Freeze("p")
	l.wantFrozen("p", true)
	l.adopt("adopted", "10.0.0.128/26", Bound)
	l.free("held")
	l.Wait(request("p", "waits", 26))
	if len(woken) > 0 {
		t.Error("a claim was woken for room of a frozen pool")
	}
	l.thaw("p", 0)
	if got := <-woken; got != "waits" {
		t.Errorf("%s was woken", got)
	}
	if got := l.bind(request("p", "waits", 26)); got.Prefix != prefix("10.0.0.0/26") {
		t.Error(got)
	}
	l.sameAsLedger()
}

// One frozen pool keeps its whole domain frozen.
func TestFrozen_Domain(t *testing.T) {
	l := newLedger(t, frozenLedger)
	l.domain()
	l.thaw("small", 0)
	l.wantFrozen("small", false)
	l.wantFrozen("big", false)
	l.thaw("big", 0)
	l.bind(request("small", "c", 26))
}

// A ledger is behind by what it has not, whatever was done to it since it was opened.
// After a thaw its count goes on from where the other was.
func TestBehind(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "a", 26))
	l.bind(request("p", "b", 26))
	c, _ := l.Capacity("p")
	restored := l.open(frozenLedger)
	behind := func(id PoolID, changes int64) bool {
		is, err := restored.Behind(t.Context(), id, changes)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if behind("p", c.Changes) || !behind("p", c.Changes+1) || !behind("q", 0) {
		t.Error("the count of changes is not the one of the ledger that was opened")
	}
	if err := restored.Release(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if !behind("p", c.Changes+1) {
		t.Error("what was done since counts for what was lost")
	}
	if err := restored.Thaw(t.Context(), "p", c.Changes+1000); err != nil {
		t.Fatal(err)
	}
	l.catchUp(t)
	if now, _ := l.Capacity("p"); now.Changes != c.Changes+1000 {
		t.Errorf("the count goes on from %d; want %d", now.Changes, c.Changes+1000)
	}
	l.sameAsLedger(restored)
}

// A child pool is carved where it was, and not where others are.
func TestReadopt(t *testing.T) {
	l := newLedger(t, frozenLedger)
	l.pool("p", "10.0.0.0/16")
	carve := func(id PoolID, at string) error {
		r := exactly(request("p", string(id), 0), at)
		r.Since = time.Now()
		_, err := l.Readopt(t.Context(), r, Pool{ID: id, Cluster: "platform", Name: string(id)})
		return err
	}
	if err := carve("k", "10.0.64.0/24"); err != nil {
		t.Fatal(err)
	}
	if err := carve("k", "10.0.64.0/24"); err != nil {
		t.Error("again:", err)
	}
	if err := carve("j", "10.0.64.0/20"); !errors.Is(err, ErrInUse) {
		t.Error("over a sibling:", err)
	}
	if p, ok := l.Pool("k"); !ok || p.CIDR != prefix("10.0.64.0/24") || p.Parent != "p" {
		t.Error(p, ok)
	}
	blocks, err := l.Overlapping(t.Context(), "p", prefix("10.0.64.0/18"))
	if err != nil || len(blocks) != 1 || blocks[0].Holder.Claim != "k" {
		t.Error(blocks, err)
	}
	l.sameAsLedger()
}
