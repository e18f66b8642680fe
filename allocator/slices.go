package allocator

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// ErrSlicesGiven: as many slices of the pool are given as may be.
var ErrSlicesGiven = errors.New("all slices of the pool are given")

// Slice reads the record of a workspace, as of now. ok is false if there is none.
func (a *Allocator) Slice(ctx context.Context, id PoolID, c ClusterName) (s Slice, ok bool, err error) {
	return a.slices.Get(ctx, id, c)
}

// Slices lists the records of a pool, as of one revision.
func (a *Allocator) Slices(ctx context.Context, id PoolID) ([]Slice, error) {
	return a.slices.List(ctx, id)
}

// PutSlice writes a record. ErrSlicesGiven: with a limit above zero, so many slices are given
// already. A slice that is given already is never refused.
func (a *Allocator) PutSlice(ctx context.Context, s Slice, limit int) error {
	if err := errors.Join(ledger.CheckID("pool", s.Pool), ledger.CheckID("cluster", s.Cluster)); err != nil {
		return err
	}
	return a.slices.Change(ctx, s.Pool, s.Cluster, func(now Slice, given int) (Slice, error) {
		if limit > 0 && given >= limit && s.State == SliceGiven && now.State != SliceGiven {
			return Slice{}, ErrSlicesGiven
		}
		return s, a.Err()
	})
}

// DropSlice deletes the record of a workspace. If there is none, it does nothing.
func (a *Allocator) DropSlice(ctx context.Context, id PoolID, c ClusterName) error {
	return a.slices.Change(ctx, id, c, func(Slice, int) (Slice, error) { return Slice{}, a.Err() })
}

// DropSlices deletes all records of a pool.
func (a *Allocator) DropSlices(ctx context.Context, id PoolID) error {
	if err := a.Err(); err != nil {
		return err
	}
	return a.slices.DeleteAll(ctx, id)
}
