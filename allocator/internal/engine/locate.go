package engine

import (
	"cmp"
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Locate finds the space of a pool.
func (eng *Engine) Locate(ctx context.Context, id ledger.PoolID) (*Space, error) {
	if w, ok := eng.SpaceOf(id); ok {
		return w, nil
	}
	return nil, eng.unknown(ctx, id)
}

// locate finds the space of a pool for an op. If the pool is an address space that the op may begin, and does not
// exist, locate makes its space in memory.
func (eng *Engine) locate(ctx context.Context, id ledger.PoolID, begins *ledger.Derived) (*Space, error) {
	if begins == nil {
		return eng.Locate(ctx, id)
	}
	if s, ok := eng.SpaceOf(id); ok {
		return s, nil
	}
	if err := eng.absent(id); !errors.Is(err, ledger.ErrUnknownPool) {
		return nil, err
	}
	if _, err := eng.Locate(ctx, begins.Of); err != nil {
		return nil, err
	}
	s := eng.Spaces.Enter(ledger.SpaceID(id))
	s.Unlock()
	return s, nil
}

// Known returns the record of a pool.
func (eng *Engine) Known(ctx context.Context, id ledger.PoolID) (record ledger.Pool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return ledger.Pool{}, err
	}
	if !eng.Table.Visit(id, func(p *space.Pool) { record = p.Pool }) {
		return ledger.Pool{}, eng.unknown(ctx, id)
	}
	return record, nil
}

// unknown returns why the ledger does not have a pool that is not in memory. The ledger confirms it: a process that has
// lost the office without noticing lacks the pools that were registered afterwards.
func (eng *Engine) unknown(ctx context.Context, id ledger.PoolID) error {
	err := eng.absent(id)
	if !errors.Is(err, ledger.ErrUnknownPool) {
		return err
	}
	return cmp.Or(eng.InOffice(ctx), err)
}

// InOffice confirms, by a transaction, that this process is the writer of the ledger.
func (eng *Engine) InOffice(ctx context.Context) error {
	_, err := eng.store.Write(ctx, nil, nil, nil)
	return err
}

// absent returns why a pool is not in memory.
func (eng *Engine) absent(id ledger.PoolID) error {
	if err := eng.Health.Err(); err != nil {
		return err
	}
	if damaged, ok := eng.Table.Damaged()[eng.Keys.Pool(id)]; ok {
		return damaged
	}
	return ledger.ErrUnknownPool
}

// SpaceOf returns the space of a pool; ok is false if the pool is not in memory.
func (eng *Engine) SpaceOf(id ledger.PoolID) (*Space, bool) {
	p, ok := eng.Table.Find(id)
	if !ok {
		return nil, false
	}
	return eng.Spaces.find(p.In.ID)
}
