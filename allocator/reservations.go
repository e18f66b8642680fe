package allocator

import (
	"context"
	"net/netip"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Reservations is the Allocator's view of the blocks that are held for claims which are being created. It is safe for
// concurrent use.
type Reservations struct{ a *Allocator }

// Reservations returns the operations on reservations.
func (a *Allocator) Reservations() Reservations { return Reservations{a} }

// Has reports whether the ledger has a reservation, as of memory.
func (rs Reservations) Has(id ledger.ClaimID) bool {
	_, ok := rs.Since(id)
	return ok
}

// Since tells when the first CREATE was answered with a reservation (BoundAt: the last), or, if that
// was before the ledger was opened, the last one before it. ok is false if the ledger does not have the reservation,
// as of memory.
func (rs Reservations) Since(id ledger.ClaimID) (since time.Time, ok bool) {
	cluster, ok := ledger.ReservedBy(id)
	if !ok {
		return time.Time{}, false
	}
	return rs.a.table.Reservations.Since(cluster, id)
}

// Count counts the reservations of each workspace, as of memory.
func (rs Reservations) Count() map[ledger.ClusterName]int { return rs.a.table.Reservations.Count() }

// Preview returns the block that Reserve would give now to a holder that has none, and reserves nothing.
// It does not ask the ledger.
func (rs Reservations) Preview(ctx context.Context, req ledger.Request) (netip.Prefix, error) {
	if err := checkRequest(req); err != nil {
		return netip.Prefix{}, err
	}
	s, err := rs.a.engine.Locate(req.Pool)
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
	at, err := (&bind{wanted: wanted{Request: req, reserves: true}}).find(s.View(nil), p)
	return at.prefix, err
}
