package allocator

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The limit of a class stops claims at several pools of a domain. One of the pools was drained while the
// watch was cut off, so that the ledger is read again. The claims at the others are still woken when
// their workspace holds less.
func TestReread_KeepsTheWatchOfALimit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ids := []ledger.PoolID{"a", "b", "c"}
	for i, id := range ids {
		l.registerIn(id, fmt.Sprintf("10.0.%d.0/24", i))
		l.bind(request(id, "keeps "+string(id), 28))
	}
	l.pool("q", "10.9.0.0/24")
	l.bind(limited(0, 64, request("q", "held", 26)))
	woken := make(chan ledger.ClaimID, len(ids))
	behind, watch := l.behind(func(o *Options) { o.Wake = func(h ledger.Holder) { woken <- h.Claim } })
	for _, id := range ids {
		behind.Waits().Add(limited(0, 64, request(id, string(id), 26)))
	}
	l.missed(behind, watch, func() { must.Do(t, l.Pools().Drain(t.Context(), "a")) })
	if got := <-woken; got != "a" || len(woken) > 0 {
		t.Fatalf("%s was woken, and %d more; want the claim at the pool that drains alone: the workspace holds as much as before", got, len(woken))
	}
	l.free("held")
	behind.catchUp(t)
	if len(woken) != 2 {
		t.Errorf("%d claims were woken, want those at b and c", len(woken))
	}
	l.sameAsLedger(behind.Allocator)
}

// behind opens an Allocator whose watch can be cut off, and that holds room for long.
func (l *fixture) behind(options ...func(*Options)) (*fixture, *cutter) {
	l.t.Helper()
	watch := &cutter{Watcher: l.etcd.Client().Watcher}
	options = append(options, func(o *Options) { o.HoldTime = time.Hour })
	return &fixture{Allocator: l.through(l.etcd.Client().KV, watch, options...), t: l.t, etcd: l.etcd}, watch
}

// missed cuts a watch off, and lets it go on when etcd has forgotten what happened meanwhile: the ledger is read again.
func (l *fixture) missed(behind *fixture, watch *cutter, happens func()) {
	l.t.Helper()
	watch.set(true)
	happens()
	later := must.Get(l.etcd.Client().Put(l.t.Context(), "elsewhere", ""))(l.t) // a watch may begin with the revision of a compaction
	must.Get(l.etcd.Client().Compact(l.t.Context(), later.Header.Revision))(l.t)
	watch.set(false)
	behind.catchUp(l.t)
}

// A derived pool was retired and made again elsewhere while nobody told this Allocator. Room that is held in the former one is no
// room of the new one, and takes no block away from it.
func TestReread_ADerivedPoolThatWasMadeAgain(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/16")
	behind, watch := l.behind()
	net := l.provision("p", 24, ofNetwork("net", "a"))
	behind.catchUp(t)
	behind.Waits().Add(request(net.ID, "waits", 28))
	l.missed(behind, watch, func() {
		must.Do(t, l.Pools().Retire(t.Context(), net.ID))
		l.bind(request("p", "takes its place", 24))
		if again := l.provision("p", 24, ofNetwork("net", "a")); again.CIDR == net.CIDR {
			t.Fatalf("the pool was made again at %s, want another place", again.CIDR)
		}
		l.bind(request(net.ID, "c", 28))
	})
	l.sameAsLedger(behind.Allocator)
	if n := waiting(behind.Allocator, net.ID); n != 0 {
		t.Errorf("%d claims wait in the pool, want none: it is another one", n)
	}
	must.Be(t, behind.Pools().Retire(t.Context(), net.ID), ledger.ErrPoolInUse)
	l.sameAsLedger(behind.Allocator)
}

// A pool was retired elsewhere and made again while this Allocator was about to retire it. The new one has nobody yet who retires it, and
// goes by itself when it drains.
func TestReread_APoolThatIsRetiringAndWasMadeAgain(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/16")
	behind, watch := l.behind()
	net := l.provision("p", 24, ofNetwork("net", "a"))
	l.bind(request(net.ID, "c", 28))
	behind.catchUp(t)
	inFlight, goOn := behind.holdCommits()
	must.Do(t, l.Pools().Drain(t.Context(), net.ID))
	both := make(chan struct{})
	var commits atomic.Int32
	l.swap(func(h *engine.Hooks) {
		h.BeforeCommit = func(ledger.SpaceID) error {
			if commits.Add(1) > 1 { // after the release: the pool is not retired before the other one is about to do so
				<-both
			}
			return nil
		}
	})
	l.free("c")
	<-inFlight
	close(both)
	l.missed(behind, watch, func() {
		l.waitGone(net.ID)
		if again := l.provision("p", 24, ofNetwork("net", "a")); again.CIDR != net.CIDR {
			t.Fatalf("the pool was made again at %s, want %s", again.CIDR, net.CIDR)
		}
		l.bind(request(net.ID, "d", 28))
	})
	goOn()
	behind.table.Visit(net.ID, func(p *space.Pool) {
		if p.Retiring {
			t.Error("an open pool is retiring")
		}
	})
	l.sameAsLedger(behind.Allocator)
}

// Room that is held for a claim was given to another one while nobody told this Allocator. The claim waits for other room.
func TestReread_AHoldThatAnotherHasTaken(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	behind, watch := l.behind()
	behind.catchUp(t)
	behind.Waits().Add(request("p", "waits", 28))
	l.missed(behind, watch, func() { l.bind(request("p", "c", 28)) })
	l.sameAsLedger(behind.Allocator)
	behind.gets(request("p", "waits", 28), "10.0.0.16/28")
	l.sameAsLedger(behind.Allocator)
}

// pausingKV is an etcd that keeps the next read of all spaces waiting. The read is as of a revision from before.
type pausingKV struct {
	clientv3.KV
	spaces        string
	armed         atomic.Bool
	reached, goOn chan struct{}
}

func (kv *pausingKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if key == kv.spaces && kv.armed.CompareAndSwap(true, false) {
		close(kv.reached)
		<-kv.goOn
	}
	return kv.KV.Get(ctx, key, opts...)
}

// While the ledger is read again, this Allocator goes on writing in the spaces where it has missed nothing. The older reading does not
// undo the leases and the reservations that begin and end meanwhile.
func TestReread_KeepsTheNotesOfItsOwnWrites(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	watch := &cutter{Watcher: l.etcd.Client().Watcher}
	kv := &pausingKV{KV: l.etcd.Client().KV, spaces: l.keys.Spaces(), reached: make(chan struct{}), goOn: make(chan struct{})}
	behind := &fixture{Allocator: l.through(kv, watch), t: t, etcd: l.etcd}
	until := time.Now().Add(time.Hour)
	for _, name := range []string{"leased", "let"} {
		behind.bind(request("p", name, 28))
	}
	behind.retain("let", until)
	web := behind.reserve(reservation("web", 28))
	kv.armed.Store(true)
	watch.set(true)
	l.bind(request("q", "unseen", 28))
	missed := l.bind(request("q", "unseen, too", 28))
	must.Get(l.etcd.Client().Compact(t.Context(), missed.Revision))(t)
	watch.set(false)
	<-kv.reached
	behind.retain("leased", until)
	behind.free("let")
	behind.confirm(confirmation(web, "uid"))
	db := behind.reserve(reservation("db", 28))
	close(kv.goOn)
	behind.catchUp(t)
	if due, _ := behind.Retained().Due(until); len(due) != 1 || due[0].Claim != "leased" {
		t.Errorf("the leases of %v are over, want that of leased", due)
	}
	if behind.Reservations().Has(web.Holder.Claim) || !behind.Reservations().Has(db.Holder.Claim) {
		t.Errorf("reservations of each workspace: %v, want that of db alone", behind.Reservations().Count())
	}
	l.sameAsLedger(behind.Allocator)
}

// The leases and the reservations of a space that has gone while nobody told this Allocator are gone with it.
func TestReread_ForgetsTheNotesOfASpaceThatIsGone(t *testing.T) {
	t.Parallel()
	l := withPool(t, "10.0.0.0/24")
	l.pool("q", "10.1.0.0/24")
	behind, watch := l.behind()
	l.bind(request("p", "let", 28))
	l.retain("let", time.Now())
	web := l.reserve(reservation("web", 28))
	behind.catchUp(t)
	l.missed(behind, watch, func() {
		l.free("let")
		l.free(web.Holder.Claim)
		must.Do(t, l.Pools().Retire(t.Context(), "p"))
		l.bind(request("q", "c", 28))
	})
	if due, next := behind.Retained().Due(time.Now()); len(due) > 0 || !next.IsZero() {
		t.Errorf("leases of %v, the next one until %s; want none", due, next)
	}
	if n := behind.Reservations().Count(); len(n) > 0 {
		t.Errorf("reservations of each workspace: %v, want none", n)
	}
	l.sameAsLedger(behind.Allocator)
}
