package allocator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

func (l *fixture) carve(parent, child ledger.PoolID, length int) (ledger.Pool, error) {
	req := request(parent, string(child), length)
	req.Holder.Namespace = ""
	return l.Pools().Carve(l.t.Context(), req, ledger.Pool{ID: child, Cluster: "tenant", Name: string(child)})
}

func TestCarve(t *testing.T) {
	l := newLedger(t)
	other := l.open()
	l.pool("p", "10.0.0.0/24")
	child, err := l.carve("p", "child", 25)
	if err != nil || child.CIDR != prefix("10.0.0.0/25") || child.Parent != "p" {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/25", child, err)
	}
	again, err := (&fixture{Allocator: other, t: t}).carve("p", "child", 25)
	if err != nil || fmt.Sprint(again) != fmt.Sprint(child) {
		t.Errorf("carve = %v, %v; want the same child", again, err)
	}
	grandchild, err := l.carve("child", "grandchild", 26)
	if err != nil || grandchild.CIDR != prefix("10.0.0.0/26") {
		t.Fatalf("carve = %v, %v; want 10.0.0.0/26", grandchild, err)
	}
	b, err := other.Bind(t.Context(), request("grandchild", "c", 27))
	if err != nil || b.Prefix != prefix("10.0.0.0/27") || b.Space != "grandchild" {
		t.Errorf("Bind = %v, %v; want 10.0.0.0/27", b, err)
	}
	l.sameAsLedger(other, l.open())

	if err := l.Pools().Retire(t.Context(), "child"); !errors.Is(err, ledger.ErrPoolInUse) {
		t.Errorf("Retire: %v", err)
	}
	if err := l.Release(t.Context(), "c"); err != nil {
		t.Fatalf("Release: %v", err)
	}
	for _, id := range []ledger.PoolID{"grandchild", "child", "p"} {
		if err := other.Pools().Retire(t.Context(), id); err != nil {
			t.Errorf("Retire(%s): %v", id, err)
		}
	}
	if blocks := l.sameAsLedger(other); len(blocks) != 0 {
		t.Errorf("sameAsLedger: %v", blocks)
	}
}

func TestCarve_Refusals(t *testing.T) {
	l := newLedger(t)
	l.pool("p", "10.0.0.0/24")
	l.pool("taken", "10.1.0.0/24")
	l.bind(request("p", "claim", 25))
	for name, tc := range map[string]struct {
		parent, child ledger.PoolID
		want          error
	}{
		"an ID that has a block": {"p", "claim", ledger.ErrPoolMismatch},
		"an ID that is a pool":   {"p", "taken", ledger.ErrPoolMismatch},
		"no parent":              {"q", "child", ledger.ErrUnknownPool},
	} {
		if _, err := l.carve(tc.parent, tc.child, 26); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	var exhausted *ledger.ExhaustedError
	if _, err := l.carve("p", "child", 24); !errors.As(err, &exhausted) {
		t.Errorf("carve: %v", err)
	}
	l.sameAsLedger()
}

// While a child is carved and retired by one allocator, others bind in it. No
// block is ever in a child that is gone, and the parent gets its room back.
func TestRetire_RacesWithBind(t *testing.T) {
	l := newLedger(t)
	allocators := []*Allocator{l.Allocator, l.open(), l.open()}
	l.pool("p", "10.0.0.0/24")
	for round := range 20 {
		child := ledger.PoolID(fmt.Sprint("child", round))
		if _, err := l.carve("p", child, 25); err != nil {
			t.Fatalf("carve: %v", err)
		}
		var wg sync.WaitGroup
		for i, a := range allocators {
			wg.Go(func() {
				claim := fmt.Sprint("c", round, i)
				_, err := a.Bind(t.Context(), request(child, claim, 28))
				if err != nil && !errors.Is(err, ledger.ErrUnknownPool) {
					t.Errorf("Bind: %v", err)
				}
			})
			wg.Go(func() {
				if err := a.Pools().Retire(t.Context(), child); err != nil && !errors.Is(err, ledger.ErrPoolInUse) {
					t.Errorf("Retire: %v", err)
				}
			})
		}
		wg.Wait()
		l.clear(child, allocators)
	}
	if blocks := l.sameAsLedger(allocators[1:]...); len(blocks) != 0 {
		t.Errorf("sameAsLedger: %v", blocks)
	}
}

// clear checks the ledger, frees what a pool holds, and retires it.
func (l *fixture) clear(id ledger.PoolID, allocators []*Allocator) {
	l.t.Helper()
	for _, b := range l.sameAsLedger(allocators[1:]...) {
		if b.Pool != string(id) {
			continue
		}
		if err := allocators[1].Release(context.Background(), ledger.ClaimID(b.Claims[0])); err != nil {
			l.t.Fatalf("Release: %v", err)
		}
	}
	if err := allocators[2].Pools().Retire(context.Background(), id); err != nil {
		l.t.Fatalf("Retire: %v", err)
	}
}

// The addresses of a child's block are given out by the child: the block is not freed before the child is retired.
func TestRelease_TheBlockOfAChild(t *testing.T) {
	l, other := both(t)
	l.pool("p", "10.0.0.0/24")
	if _, err := l.carve("p", "child", 25); err != nil {
		t.Fatalf("carve: %v", err)
	}
	derived := l.provision("p", 25, ofNetwork("net", "a"))
	for _, id := range []ledger.ClaimID{"child", ledger.ClaimID(derived.ID)} {
		if err := other.Release(t.Context(), id); !errors.Is(err, ledger.ErrPoolInUse) {
			t.Errorf("Release of the block of %s = %v, want %v", id, err, ledger.ErrPoolInUse)
		}
	}
	l.wantBlocks("10.0.0.0/25 [child] bound", fmt.Sprintf("10.0.0.128/25 [%s] bound", derived.ID))
	l.must(other.Pools().Retire(t.Context(), "child"))
	l.must(other.Pools().Retire(t.Context(), derived.ID))
	if blocks := l.sameAsLedger(other.Allocator); len(blocks) > 0 {
		t.Errorf("the ledger has %v, want nothing", blocks)
	}
}
