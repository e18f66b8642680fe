package allocator

import (
	"context"
	"errors"
	"fmt"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Adopt binds exactly the prefix req.Exact for a claim, because a published record shows that the claim has it. Adopt
// is for restoring a lost ledger: so the pool may be closed or frozen, and the prefix may be excluded. Blocks that cool
// at the prefix are freed. A claim that has a block already keeps that block, and Adopt returns it. ErrInUse: other
// blocks overlap the prefix.
func (rc Recovery) Adopt(ctx context.Context, req ledger.Request, state ledger.BlockState) (ledger.Block, error) {
	if err := checkRequest(req); err != nil {
		return ledger.Block{}, err
	}
	if !req.Exact.IsValid() || state != ledger.Bound && state != ledger.Retained {
		return ledger.Block{}, fmt.Errorf("%w: adopt an exact prefix, as bound or retained", ledger.ErrInvalid)
	}
	w := wanted{Request: req, adopts: true}
	h := w.holding(rc.a.engine.Hooks.Now())
	if h.State = state; state == ledger.Retained {
		h.Until = store.Stamped(req.Until)
	}
	for {
		done, err := rc.a.engine.Submit(ctx, req.Pool, newBind(w, h).op())
		switch {
		case err == nil:
			rc.a.engine.Metrics.CountBind(done.Attempts)
			return done.Block, nil
		case errors.Is(err, errBound):
			if b, found, err := rc.a.Lookup(ctx, req.Holder.Claim); err != nil || found {
				return b, err
			}
			err = rc.a.Pools().endCooling(ctx, req.Holder.Claim)
		case errors.Is(err, ledger.ErrInUse):
			made, roomErr := rc.a.Pools().endCooldowns(ctx, req.Pool, engine.EndCooldowns{Within: req.Exact})
			if roomErr != nil {
				return ledger.Block{}, roomErr
			}
			if made {
				continue
			}
		}
		if err != nil {
			return ledger.Block{}, err
		}
	}
}
