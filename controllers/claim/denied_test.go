package claim

import (
	"context"
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
)

// withdrawals is a ledger that counts who waits no more.
type withdrawals struct {
	views.Waits
	count int
}

func (w *withdrawals) Withdraw(ledger.ClaimID) { w.count++ }

// servers say whether a claim is gone.
type servers struct {
	Releases
	gone  bool
	err   error
	asked int
}

func (s *servers) Gone(context.Context, ledger.Holder) (bool, error) {
	s.asked++
	return s.gone, s.err
}

// A claim that was denied is asked for before it is bound again, and one that is gone
// waits for nothing any more.
func TestConfirm(t *testing.T) {
	t.Parallel()
	fault := errors.New("no answer")
	for _, tt := range []struct {
		name      string
		denied    bool
		servers   servers
		want      error
		asked     int
		withdrawn int
		denies    bool // afterwards
	}{
		{name: "never denied", servers: servers{gone: true}},
		{name: "gone", denied: true, servers: servers{gone: true}, want: errGone, asked: 1, withdrawn: 1, denies: true},
		{name: "there after all", denied: true, asked: 1},
		{name: "nobody knows", denied: true, servers: servers{err: fault}, want: fault, asked: 1, denies: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ledger, servers := &withdrawals{}, &tt.servers
			p := &pass{Reconciler: &Reconciler{Options: Options{Ledger: views.Ledger{Waits: ledger}, Releases: servers}}, claim: gen.Claim("c")}
			if tt.denied {
				p.memory.markGone(p.claim.UID)
			}
			if err := p.confirmAlive(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("confirm says %v; want %v", err, tt.want)
			}
			denies := p.memory.markedGone(p.claim.UID)
			if servers.asked != tt.asked || ledger.count != tt.withdrawn || denies != tt.denies {
				t.Errorf("asked %d times, withdrawn %d times, denied %t; want %d, %d, %t",
					servers.asked, ledger.count, denies, tt.asked, tt.withdrawn, tt.denies)
			}
		})
	}
}
