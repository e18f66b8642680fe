package allocator

import (
	"context"
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// The answer of a transaction is lost, and no further call is made. The Allocator is healthy as soon as the transaction
// is settled.
func TestHealthy_RecoversWithoutAnotherCall(t *testing.T) {
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

// A transaction could not be settled while etcd was away. It is settled when etcd is back, even if no call follows.
func TestUnknownOutcome_IsSettledWithoutAnotherCall(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	e := l.goesAway()
	must.Fail(l.Bind(t.Context(), request("p", "c", 26)))(t, ledger.ErrUnavailable)

	e.fail.Store(false)
	l.waitIdle(t)

	l.holds(1)
	must.Do(t, l.Healthy())
}
