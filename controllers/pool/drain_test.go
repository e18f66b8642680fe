package pool

import (
	"context"
	"iter"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
)

// blocksLedger has these blocks in each pool.
type blocksLedger struct {
	views.Blocks
	blocks []ledger.Block
}

func (l blocksLedger) List(context.Context, allocator.ListOptions) iter.Seq2[ledger.Block, error] {
	return func(yield func(ledger.Block, error) bool) {
		for _, b := range l.blocks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// holders knows the holders by their names.
type holders map[string]live.Answer

func (o holders) Holder(_ context.Context, h ledger.Holder) (live.Answer, error) {
	return o[h.Name], nil
}

// A DELETE waits for a pool that all holders are about to leave, and for no other.
func TestDraining_WhereAllHoldersGo(t *testing.T) {
	known := holders{"gone": {Verdict: live.Gone}, "leaving": {Verdict: live.Alive, Leaving: true}, "stays": {Verdict: live.Alive}}
	block := func(holder string, state ledger.BlockState, in ledger.ClusterName) ledger.Block {
		return ledger.Block{State: state, Holder: ledger.Holder{Cluster: in, Namespace: "default", Name: holder}}
	}
	for name, tt := range map[string]struct {
		blocks []ledger.Block
		want   bool
	}{
		"empty by now":      {nil, true},
		"all go":            {[]ledger.Block{block("gone", ledger.Bound, "own"), block("leaving", ledger.Bound, "own"), block("was", ledger.Cooling, "own")}, true},
		"one stays":         {[]ledger.Block{block("gone", ledger.Bound, "own"), block("stays", ledger.Bound, "own")}, false},
		"nobody can tell":   {[]ledger.Block{block("unknown", ledger.Bound, "own")}, false},
		"retained":          {[]ledger.Block{block("gone", ledger.Retained, "own")}, false},
		"of another tenant": {[]ledger.Block{block("gone", ledger.Bound, "other")}, false},
	} {
		r := &Reconciler{Options: Options{Ledger: views.Ledger{Blocks: blocksLedger{blocks: tt.blocks}}, Oracle: known}}
		if got, err := r.draining(t.Context(), door.Pool{Cluster: "own", Name: "p", UID: "u"}); got != tt.want || err != nil {
			t.Errorf("%s: %t, %v; want %t", name, got, err, tt.want)
		}
	}
}
