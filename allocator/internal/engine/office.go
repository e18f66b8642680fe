package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retryOffice is the pause before the next attempt to take the office.
const retryOffice = 250 * time.Millisecond

// takeOffice takes the office of the ledger's writer. It tries until ctx ends, or another process has
// taken the office meanwhile.
func (eng *Engine) takeOffice(ctx context.Context) (*store.Office, error) {
	for candidacy := eng.store.Candidate(rand.Text(), eng.address); ; {
		office, err := candidacy.Take(ctx)
		if err == nil || errors.Is(err, ledger.ErrDeposed) || ledger.Unreadable(err) || ctx.Err() != nil {
			return office, err
		}
		eng.logger.Warn("the office of the ledger's writer is not taken yet", "error", err)
		select {
		case <-time.After(retryOffice):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
