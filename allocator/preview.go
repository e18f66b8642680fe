package allocator

import (
	"context"
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Preview returns the block that Bind would give now to a holder that has none, and binds nothing. It asks the ledger
// only about a pool that memory does not have. Its refusals are those of Bind.
func (a *Allocator) Preview(ctx context.Context, req ledger.Request) (netip.Prefix, error) {
	if err := checkRequest(req); err != nil {
		return netip.Prefix{}, err
	}
	s, err := a.engine.Locate(ctx, req.Pool)
	if err != nil {
		return netip.Prefix{}, err
	}
	return preview(s, req)
}

func preview(s *engine.Space, req ledger.Request) (netip.Prefix, error) {
	s.Lock()
	defer s.Unlock()
	p := s.Pool(req.Pool)
	if p == nil {
		return netip.Prefix{}, ledger.ErrUnknownPool
	}
	if err := s.Unfit(); err != nil {
		return netip.Prefix{}, err
	}
	at, err := (&bind{wanted: wanted{Request: req}}).find(s.View(nil), p)
	return at.prefix, err
}
