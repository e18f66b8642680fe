package claim

import (
	"context"
	"errors"
)

// errGone: the claim does not exist, though the cache shows it.
var errGone = errors.New("the claim is gone, and the cache has missed it")

// confirmAlive asks the servers for a claim that they have denied before. A cache that has
// missed its deletion shows it until the next list: each look would bind it a block, only
// to have that freed again.
func (p *pass) confirmAlive(ctx context.Context) error {
	if !p.memory.markedGone(p.claim.UID) {
		return nil
	}
	gone, err := p.Releases.Gone(ctx, p.holder())
	if err != nil {
		return err
	}
	if gone {
		p.leave()
		unmet.remove(p.request)
		return errGone
	}
	p.memory.markAlive(p.claim.UID)
	return nil
}
