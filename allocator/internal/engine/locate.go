package engine

import (
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Locate finds the space of a pool.
func (eng *Engine) Locate(id ledger.PoolID) (*Space, error) {
	if w, ok := eng.SpaceOf(id); ok {
		return w, nil
	}
	return nil, eng.unknown(id)
}

// Known returns the record of a pool.
func (eng *Engine) Known(id ledger.PoolID) (record ledger.Pool, err error) {
	if err := ledger.CheckID("pool", id); err != nil {
		return ledger.Pool{}, err
	}
	if !eng.Table.Visit(id, func(p *space.Pool) { record = p.Pool }) {
		return ledger.Pool{}, eng.unknown(id)
	}
	return record, nil
}

// unknown returns why a pool is not in memory.
func (eng *Engine) unknown(id ledger.PoolID) error {
	if err := eng.Health.Err(); err != nil {
		return err
	}
	if damaged, ok := eng.Table.Damaged()[eng.Keys.Pool(id)]; ok {
		return damaged
	}
	return ledger.ErrUnknownPool
}

// SpaceOf is the space of a pool that is in memory.
func (eng *Engine) SpaceOf(id ledger.PoolID) (*Space, bool) {
	p, ok := eng.Table.Find(id)
	if !ok {
		return nil, false
	}
	return eng.Spaces.find(p.In.ID)
}
