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
	for {
		if err := a.Err(); err != nil {
			return err
		}
		seen, err := a.slices.View(ctx, s.Pool, s.Cluster)
		if err != nil || seen.Exists && same(seen.Slice, s) {
			return err
		}
		total := seen.Given + countOf(s) - countOf(seen.Slice)
		if limit > 0 && total > limit && total > seen.Given {
			return ErrSlicesGiven
		}
		if done, err := a.slices.Put(ctx, seen, s, total); err != nil || done {
			return err
		}
	}
}

// DropSlice deletes the record of a workspace. If there is none, it does nothing.
func (a *Allocator) DropSlice(ctx context.Context, id PoolID, c ClusterName) error {
	for {
		if err := a.Err(); err != nil {
			return err
		}
		seen, err := a.slices.View(ctx, id, c)
		if err != nil || !seen.Exists {
			return err
		}
		if done, err := a.slices.Delete(ctx, seen, seen.Given-countOf(seen.Slice)); err != nil || done {
			return err
		}
	}
}

// DropSlices deletes all records of a pool.
func (a *Allocator) DropSlices(ctx context.Context, id PoolID) error {
	if err := a.Err(); err != nil {
		return err
	}
	return a.slices.DeleteAll(ctx, id)
}

// same reports whether two records are equal.
func same(a, b Slice) bool {
	if !a.Since.Equal(b.Since) {
		return false
	}
	a.Since = b.Since
	return a == b
}

// countOf is how many slices a record counts for.
func countOf(s Slice) int {
	if s.State == SliceGiven {
		return 1
	}
	return 0
}
