package allocator

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"golang.org/x/sync/errgroup"
)

// A child that was retired and carved elsewhere is retired at its new place. The blocks of other claims at its old
// place stay.
func TestRetire_FindsAChildThatWasCarvedElsewhere(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	known, _ := l.Pools().Get("child")
	before := &uncarve{retirement: retirement{Allocator: l.Allocator, id: "child"}, child: known}
	must.Do(t, before.look(t.Context()))
	overtaken := func(what string) {
		t.Helper()
		if _, err := l.engine.Submit(t.Context(), "p", engine.Op{Alone: true, Plan: before.plan}); !errors.Is(err, engine.ErrOvertaken) {
			t.Errorf("a child %s could be retired once more: %v", what, err)
		}
	}
	must.Do(t, l.Pools().Retire(t.Context(), "child"))
	overtaken("that is gone")
	l.bind(request("p", "in its place", 26))
	must.Get(l.carve("p", "child", 26))(t)
	overtaken("that is elsewhere")

	must.Do(t, l.Pools().Retire(t.Context(), "child"))
	if blocks := l.sameAsLedger(); len(blocks) != 1 || blocks[0].Prefix != prefix("10.0.0.0/26") {
		t.Errorf("sameAsLedger: %v", blocks)
	}
}

// Many callers carve and retire the same children, and bind and release blocks in the rest of the pool: no block of a
// claim is freed with a child.
func TestRetire_FreesNobodysBlockInAStorm(t *testing.T) {
	l := withPool(t, "10.0.0.0/28")
	allocators := []*Allocator{l.Allocator, l.Allocator, l.Allocator}
	var storm errgroup.Group
	storm.SetLimit(24)
	for range 1500 {
		storm.Go(func() error {
			a, n := allocators[rand.IntN(len(allocators))], fmt.Sprint(rand.IntN(3))
			var err error
			switch rand.IntN(4) {
			case 0:
				_, err = a.Pools().Carve(t.Context(), request("p", "child"+n, 30), ledger.Pool{ID: ledger.PoolID("child" + n), Cluster: "tenant", Name: n})
			case 1:
				err = a.Pools().Retire(t.Context(), ledger.PoolID("child"+n))
			case 2:
				_, err = a.Bind(t.Context(), request("p", "claim"+n, 30))
			case 3:
				err = a.Release(t.Context(), ledger.ClaimID("claim"+n))
			}
			if err != nil && !exhausted(err) {
				t.Errorf("got %v, want a refusal", err)
			}
			return nil
		})
	}
	_ = storm.Wait()
	l.sameAsLedger()
}

// A child whose block is lost is removed alone. Another claim keeps its block in that place.
func TestRetire_RemovesAChildWithoutABlock(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	for _, key := range []string{l.keys.Space("p").Block(prefix("10.0.0.0/26")), l.keys.Claim("child")} {
		must.Get(l.etcd.Client().Delete(t.Context(), key))(t)
	}
	l.again()
	l.bind(exactly(request("p", "other", 0), "10.0.0.0/26"))
	must.Do(t, l.Pools().Retire(t.Context(), "child"))
	l.wantBlocks("10.0.0.0/26 other bound")
	if p, ok := l.Pools().Get("child"); ok {
		t.Errorf("the ledger has %v still, want it retired", p)
	}
}
