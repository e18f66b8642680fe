package allocator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The ledger has the lease with the block. To retain the block again does not change the lease.
func TestRetain_KeepsItsLease(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	kept := l.retain("c", until)
	if again := l.retain("c", until.Add(time.Hour)); kept.Until != until || again != kept {
		t.Errorf("Retain until %s = %+v, and again %+v; want that end, and one write", until, kept, again)
	}
	kv, _, err := l.store.Get(t.Context(), l.keys.Space(kept.Space).Block(kept.Prefix))
	if err != nil || !strings.HasPrefix(string(kv.Value), `{"v":1,`) || !strings.Contains(string(kv.Value), `"until":"2026-01-02T03:04:05Z"`) {
		t.Errorf("the block is %s, %v; want it with until", kv.Value, err)
	}
	if got := l.bind(request("p", "c", 26)); got != kept {
		t.Errorf("Bind of the claim = %+v, want the block that is retained: %+v", got, kept)
	}
	if _, ok, err := l.Retained().Retain(t.Context(), "nobody", until); ok || err != nil {
		t.Errorf("Retain of no block = %t, %v; want none", ok, err)
	}
	if got, ok, err := l.open().Lookup(t.Context(), "c"); err != nil || !ok || got != kept {
		t.Errorf("another allocator reads %+v, %t, %v; want %+v", got, ok, err, kept)
	}
	l.sameAsLedger()
}

// A published record that is retained until a time is adopted with that time.
func TestAdopt_KeepsALease(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	r := request("p", "c", 0)
	r.Exact, r.Until = prefix("10.0.0.16/28"), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if b, err := l.Recovery().Adopt(t.Context(), r, ledger.Retained); err != nil || b.State != ledger.Retained || b.Until != r.Until {
		t.Errorf("Adopt = %+v, %v; want it retained until %s", b, err, r.Until)
	}
	bound := request("p", "d", 0)
	bound.Exact, bound.Until = prefix("10.0.0.32/28"), r.Until
	if b, err := l.Recovery().Adopt(t.Context(), bound, ledger.Bound); err != nil || !b.Until.IsZero() {
		t.Errorf("Adopt = %+v, %v; want a bound block without an end", b, err)
	}
}

func (l *fixture) retain(claim string, until time.Time) ledger.Block {
	l.t.Helper()
	b, ok, err := l.Retained().Retain(l.t.Context(), ledger.ClaimID(claim), until)
	if err != nil || !ok {
		l.t.Fatalf("Retain(%s) = %t, %v", claim, ok, err)
	}
	return b
}

// Due names the holders whose leases are over, and when the next lease ends, also after a restart. It names a holder
// once a minute until the block is gone.
func TestDue_NamesEachLeaseThatIsOver(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, name := range []string{"first", "second", "reused", "freed", "kept"} {
		l.bind(request("p", name, 28))
		until := start.Add(time.Duration(i+1) * time.Second)
		if name == "kept" {
			until = time.Time{}
		}
		l.retain(name, until)
	}
	reused, _, err := l.Lookup(t.Context(), "reused")
	if err == nil {
		_, err = l.Retained().HandOver(t.Context(), reused, successor("reused", "later"))
	}
	if err != nil {
		t.Fatalf("HandOver: %v", err)
	}
	l.free("freed")
	names := func(a *Allocator, now time.Time) (found []ledger.ClaimID, next time.Time) {
		due, next := a.Retained().Due(now)
		for _, h := range due {
			found = append(found, h.Claim)
		}
		return found, next
	}
	before := l.Allocator
	for i, a := range []*Allocator{before, l.again()} {
		if got, next := names(a, start); got != nil || !next.Equal(start.Add(time.Second)) {
			t.Errorf("allocator %d at the start: %v due, next at %s; want none, next after a second", i, got, next)
		}
		if got, next := names(a, start.Add(time.Second)); !slices.Equal(got, []ledger.ClaimID{"first"}) || !next.Equal(start.Add(2*time.Second)) {
			t.Errorf("allocator %d after a second: %v due, next at %s; want first, and next a second later", i, got, next)
		}
		if got, next := names(a, start.Add(10*time.Second)); !slices.Equal(got, []ledger.ClaimID{"second"}) || !next.Equal(start.Add(61*time.Second)) {
			t.Errorf("allocator %d after ten: %v due, next at %s; want second, and then first again", i, got, next)
		}
		if got, _ := names(a, start.Add(time.Hour)); !slices.Equal(got, []ledger.ClaimID{"first", "second"}) {
			t.Errorf("allocator %d after an hour: %v due, want both again", i, got)
		}
		select {
		case <-a.Retained().News():
		default:
			t.Errorf("allocator %d has no news of leases", i)
		}
	}
	l.free("first")
	l.free("second")
	l.sameAsLedger()
	if due, next := l.Retained().Due(start.Add(24 * time.Hour)); due != nil || !next.IsZero() {
		t.Errorf("%v are due, next at %s; want none, as none is left", due, next)
	}
}

func TestReleaseFor_FreesOnlyAnUnchangedBlock(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	old := l.bind(request("p", "c", 26))
	kept, ok, err := l.Retained().Retain(t.Context(), "c", time.Time{})
	if err != nil || !ok || kept.State != ledger.Retained || kept.Revision == old.Revision {
		t.Fatalf("Retain = %v, %v, %v; want Retained", kept, ok, err)
	}
	must.Be(t, l.ReleaseFor(t.Context(), old, ledger.CauseReleased), ledger.ErrChanged)
	must.Do(t, l.ReleaseFor(t.Context(), kept, ledger.CauseReleased))
	must.Be(t, l.ReleaseFor(t.Context(), kept, ledger.CauseReleased), ledger.ErrChanged)
	l.bind(request("p", "d", 26))
	must.Be(t, l.ReleaseFor(t.Context(), kept, ledger.CauseReleased), ledger.ErrChanged)
	l.holds(1)
}

func TestSetPolicy_WritesOnlyAChange(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	old := l.bind(request("p", "c", 26))
	for _, policy := range []ledger.ReclaimPolicy{ledger.Delete, ledger.Retain, ledger.Retain} {
		must.Do(t, l.Retained().SetPolicy(t.Context(), "c", policy))
	}
	got, _, err := l.Lookup(t.Context(), "c")
	if err != nil || got.Policy != ledger.Retain || got.Revision != old.Revision+1 {
		t.Error("want one write, got", got, "from", old, err)
	}
	must.Do(t, l.Retained().SetPolicy(t.Context(), "nobody", ledger.Retain))
}

// Two changes of one block share a transaction. The change for a former holder is refused, and the release goes on.
func TestRelease_SucceedsBesideAChangeForAFormerHolder(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	old := l.bind(request("p", "former", 24))
	stale, _, err := l.store.RecordOf(t.Context(), "former")
	must.Do(t, err)
	l.free("former")
	now := l.bind(request("p", "c", 24))
	var released, changed error
	l.grouped(
		func() { _, _ = l.Bind(t.Context(), request("p", "full", 25)) },
		func() { released = l.ReleaseFor(t.Context(), now, ledger.CauseReleased) },
		func() {
			_, changed = l.engine.Change(t.Context(), old, engine.Op{Lane: "tenant", Plan: amend(old, stale)})
		},
	)
	must.Be(t, changed, ledger.ErrChanged)
	must.Do(t, released)
	l.sameAsLedger()
}
