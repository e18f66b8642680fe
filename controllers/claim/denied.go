package claim

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// errGone: the claim does not exist, though the cache shows it.
var errGone = errors.New("the claim is gone, and the cache has missed it")

// confirm asks the servers for a claim that they have denied before. A cache that has
// missed its deletion shows it until the next list: each look would bind it a block, only
// to have that freed again.
func (p *pass) confirm(ctx context.Context) error {
	if !p.memory.denied(p.claim.UID) {
		return nil
	}
	gone, err := p.releases.Gone(ctx, p.holder())
	if err != nil {
		return err
	}
	if gone {
		p.waiting.leave(p.request)
		p.ledger.Withdraw(ledger.ClaimID(p.claim.UID))
		unmet.settle(p.request)
		return errGone
	}
	p.memory.admit(p.claim.UID)
	return nil
}
