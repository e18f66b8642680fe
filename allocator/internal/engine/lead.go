package engine

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// retryOffice is the pause before the next attempt to take the office.
const retryOffice = 250 * time.Millisecond

// takeOffice takes the office of the ledger's writer. It tries until ctx ends, or another process has taken the office.
func (eng *Engine) takeOffice(ctx context.Context) error {
	for candidacy := eng.store.Candidate(eng.writer, eng.address); ; {
		err := candidacy.Take(ctx)
		if err == nil || errors.Is(err, ledger.ErrDeposed) || ledger.Unreadable(err) || ctx.Err() != nil {
			return err
		}
		eng.logger.Warn("the office of the ledger's writer is not taken yet", "error", err)
		select {
		case <-time.After(retryOffice):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
