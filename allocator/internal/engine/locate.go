package engine

import (
	"errors"

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

// locate finds the space of a pool for an op. An address space need not be there, if the op may begin it.
func (eng *Engine) locate(id ledger.PoolID, begins *ledger.Derived) (*Space, error) {
	s, err := eng.Locate(id)
	if err == nil || begins == nil || !errors.Is(err, ledger.ErrUnknownPool) {
		return s, err
	}
	if _, err := eng.Locate(begins.Of); err != nil {
		return nil, err
	}
	s = eng.Spaces.Enter(ledger.SpaceID(id))
	s.Unlock()
	return s, nil
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
