package allocator

import (
	"context"
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The answer to a bind is lost, and another writer releases the claim before that is
// settled. The claim stays released: to bind it again would be to bind it twice
// in one call. The call has bound it, and says so.
func TestBind_ReleasedBeforeItIsSettled(t *testing.T) {
	for name, op := range map[string]func(*fixture) error{
		"bind":  func(l *fixture) error { _, err := l.Bind(l.t.Context(), request("p", "c", 26)); return err },
		"carve": func(l *fixture) error { _, err := l.carve("p", "c", 26); return err },
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/24")
			other := l.open()
			lost := once(errLost)
			l.swap(func(h *engine.Hooks) {
				h.AfterCommit = func(id ledger.SpaceID) error {
					err := lost(id)
					if err == nil {
						return nil
					}
					if undone := undo(t, other, "c"); undone != nil {
						t.Errorf("undo: %v", undone)
					}
					return err
				}
			})

			if err := op(l); err != nil {
				t.Errorf("the bind, which was committed = %v, want no error", err)
			}
			l.holds(0, other)
			if err := op(l); err != nil {
				t.Error("asked again:", err)
			}
		})
	}
}

// undo releases a claim, or retires it if it is a pool.
func undo(t *testing.T, a *Allocator, id ledger.ClaimID) error {
	a.catchUp(t)
	if _, ok := a.Pools().Get(ledger.PoolID(id)); ok {
		return a.Pools().Retire(t.Context(), ledger.PoolID(id))
	}
	return a.Release(t.Context(), id)
}

// Nobody is left to ask for another transaction after one whose answer was lost,
// and yet the allocator is healthy as soon as that one is settled.
func TestHealthy_WhenNobodyAsksAgain(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	l.swap(func(h *engine.Hooks) {
		h.AfterCommit = func(ledger.SpaceID) error {
			cancel()
			<-asked
			return errLost
		}
	})

	_, err := l.Bind(ctx, request("p", "c", 26))
	close(asked)
	l.waitIdle(t)

	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	must.Do(t, l.Healthy())
}

// A transaction that could not be settled while etcd was away is settled when it
// is back, though nobody asks for anything.
func TestUnknownOutcome_SettledWhenNobodyAsks(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	e := l.goesAway()
	must.Fail(l.Bind(t.Context(), request("p", "c", 26)))(t, ledger.ErrUnavailable)

	e.fail.Store(false)
	l.waitIdle(t)

	l.holds(1)
	must.Do(t, l.Healthy())
}
