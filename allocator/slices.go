package allocator

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// ErrSlicesGiven says that as many slices of the pool are given as may be.
var ErrSlicesGiven = errors.New("all slices of the pool are given")

// Slices is the Allocator's view of the records of slices. It is safe for concurrent use.
type Slices struct{ a *Allocator }

// Slices returns the operations on the records of slices.
func (a *Allocator) Slices() Slices { return Slices{a} }

// Get reads the record of a workspace, as of now. ok is false if there is none.
func (ss Slices) Get(ctx context.Context, id ledger.PoolID, c ledger.ClusterName) (s ledger.Slice, ok bool, err error) {
	return ss.a.slices.Get(ctx, id, c)
}

// List lists the records of a pool, as of one revision.
func (ss Slices) List(ctx context.Context, id ledger.PoolID) ([]ledger.Slice, error) {
	return ss.a.slices.List(ctx, id)
}

// Put writes a record. It fails with ErrSlicesGiven if limit is above zero, and that many slices of the pool are given
// already. A slice that is given already is never refused.
func (ss Slices) Put(ctx context.Context, s ledger.Slice, limit int) error {
	if err := errors.Join(ledger.CheckID("pool", s.Pool), ledger.CheckID("cluster", s.Cluster)); err != nil {
		return err
	}
	return ss.a.slices.Change(ctx, s.Pool, s.Cluster, func(now ledger.Slice, given int) (ledger.Slice, error) {
		if limit > 0 && given >= limit && s.State == ledger.SliceGiven && now.State != ledger.SliceGiven {
			return ledger.Slice{}, ErrSlicesGiven
		}
		return s, ss.a.Err()
	})
}

// Drop deletes the record of a workspace. If there is none, it does nothing.
func (ss Slices) Drop(ctx context.Context, id ledger.PoolID, c ledger.ClusterName) error {
	return ss.a.slices.Change(ctx, id, c, func(ledger.Slice, int) (ledger.Slice, error) {
		return ledger.Slice{}, ss.a.Err()
	})
}

// DropAll deletes all records of a pool.
func (ss Slices) DropAll(ctx context.Context, id ledger.PoolID) error {
	if err := ss.a.Err(); err != nil {
		return err
	}
	return ss.a.slices.DeleteAll(ctx, id)
}
