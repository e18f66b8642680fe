package release

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
)

// causes are why the tenures of the ledger's history have ended.
func (p *promiseScene) causes() (causes []ledger.Cause) {
	p.Helper()
	_, err := p.reader.Tenures(p.Context(), netip.Prefix{}, func(h ledger.Tenure, err error) bool {
		if err != nil {
			p.Fatal(err)
		}
		if h.Cause != "" {
			causes = append(causes, h.Cause)
		}
		return true
	})
	if err != nil {
		p.Fatal(err)
	}
	return causes
}

// The history says why a retained block was released.
func TestCause_OfALease(t *testing.T) {
	t.Parallel()
	p, _ := retainedFor(t, 10*time.Minute)
	p.clock.SetTime(p.block().Until)
	if !p.settles(holderOf(gen.Claim("c", gen.UID("a"))), live.Gone, nil) {
		t.Fatal("not settled")
	}
	if got := p.causes(); !slices.Equal(got, []ledger.Cause{ledger.CauseLeaseExpired}) {
		t.Errorf("the history has %v, want that the lease has expired", got)
	}
}

func TestCause_OfAWorkspaceThatLeft(t *testing.T) {
	s := newScene(t)
	s.settle(t, live.Unbound)
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	if !s.settle(t, live.Unbound) || s.ledger.cause != ledger.CauseWorkspaceGone {
		t.Errorf("the block is freed because of %q, want %s", s.ledger.cause, ledger.CauseWorkspaceGone)
	}
}

func TestCause_OfAClaim(t *testing.T) {
	s := newScene(t, gen.Allocation("c", "p", "10.0.0.0/28"))
	if !s.settle(t, live.Gone) || s.ledger.cause != ledger.CauseReleased {
		t.Errorf("the block is freed because of %q, want %s", s.ledger.cause, ledger.CauseReleased)
	}
}
