package allocator

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestRelease_Twice(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "c", 24))
	for range 2 {
		must.Do(t, l.Release(t.Context(), "c"))
	}
	l.gets(request("p", "d", 24), "10.0.0.0/24")
	l.sameAsLedger()
}

func TestReleaseFor_OnlyAsGiven(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
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

func TestSetPolicy(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
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

// Of two changes of one block in one transaction, that of a former holder is refused, and
// nobody else's.
func TestRelease_BesideAnOlderChange(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	old := l.bind(request("p", "former", 24))
	stale, _, err := l.store.RecordOf(t.Context(), "former")
	if err != nil {
		t.Fatalf("RecordOf: %v", err)
	}
	must.Do(t, l.Release(t.Context(), "former"))
	now := l.bind(request("p", "c", 24))
	l.waitIdle(t)
	inFlight, goOn := l.holdCommits()
	results := make(chan error, 1)
	go func() {
		_, err := l.Bind(t.Context(), request("p", "full", 25))
		results <- err
	}()
	<-inFlight
	changed, released := make(chan error, 1), make(chan error, 1)
	go func() { released <- l.ReleaseFor(t.Context(), now, ledger.CauseReleased) }()
	l.waitQueued(1)
	go func() {
		_, err := l.engine.Change(t.Context(), old, engine.Op{Lane: "tenant", Plan: amend(old, stale, stale.Holdings[0])})
		changed <- err
	}()
	l.waitQueued(2)
	goOn()
	must.Be(t, <-changed, ledger.ErrChanged)
	must.Do(t, <-released)
	<-results
	l.waitIdle(t)
	l.sameAsLedger()
}
