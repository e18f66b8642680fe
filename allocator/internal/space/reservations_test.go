package space

import (
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The reservations that the ledger has are those of the blocks as they are now.
func TestReservations_FollowTheBlocks(t *testing.T) {
	at := func(prefix string) ledger.Position {
		return ledger.Position{Space: "s", Prefix: netip.MustParsePrefix(prefix)}
	}
	one, other := ledger.ReservationID("k", "one"), ledger.ReservationID("k", "other")
	held := func(claim ledger.ClaimID) store.Record {
		return store.Record{Held: &store.Holding{Claim: claim, Cluster: "k"}}
	}
	free := store.Record{}
	var r Reservations
	for _, step := range []struct {
		name       string
		at         ledger.Position
		block      store.Record
		one, other bool
	}{
		{"a block of a claim", at("10.0.0.0/32"), held("c"), false, false},
		{"a reservation", at("10.0.0.0/32"), held(one), true, false},
		{"the same again", at("10.0.0.0/32"), held(one), true, false},
		{"another beside it", at("10.0.0.1/32"), held(other), true, true},
		{"the first is confirmed", at("10.0.0.0/32"), held("c"), false, true},
		{"the block of the other is gone", at("10.0.0.1/32"), free, false, false},
		{"it was gone", at("10.0.0.1/32"), free, false, false},
		{"a reservation of the same name elsewhere", at("10.0.0.9/32"), held(one), true, false},
	} {
		r.Put(step.at, step.block)
		_, a := r.Since("k", one)
		_, b := r.Since("k", other)
		if a != step.one || b != step.other {
			t.Errorf("%s: the ledger has the first = %t, the second = %t; want %t, %t", step.name, a, b, step.one, step.other)
		}
	}
	if got := r.Len(); got != 1 {
		t.Errorf("Len = %d; want 1", got)
	}
	r.Put(at("10.0.0.9/32"), free)
	if r.Len() != 0 || len(r.stored.of) != 0 || len(r.stored.at) != 0 {
		t.Errorf("without reservations there remain %d workspaces and %d blocks", len(r.stored.of), len(r.stored.at))
	}
}

// A reservation that moves to another block has both for a moment, if the new one is applied first.
func TestReservations_OneThatMoves(t *testing.T) {
	id, then := ledger.ReservationID("k", "c"), time.Unix(1000, 0)
	from, to := ledger.Position{Space: "s"}, ledger.Position{Space: "z"}
	block := store.Record{Held: &store.Holding{Claim: id, Cluster: "k", BoundAt: then}}
	var r Reservations
	r.Put(from, block)
	r.Put(to, block)
	r.Put(from, store.Record{})
	for _, what := range []string{"moved", "renewed"} {
		if since, ok := r.Since("k", id); !ok || !since.Equal(then) || r.Len() != 1 {
			t.Errorf("%s: Since = %v, %t of %d reservations; want %v of one", what, since, ok, r.Len(), then)
		}
		r.Put(to, block)
	}
	must.Do(t, r.Begin("k", id, then.Add(time.Second)))
}
