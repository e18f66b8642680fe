package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Entry is one key and its value, as it was read, or as a transaction has put it. Of Registered, Head and Block, only
// the field for the key's kind is set.
type Entry struct {
	Key
	Text     string // the key itself
	Put      bool   // false: the key was deleted
	Retired  bool   // this process has retired the pool
	Revision int64  // of its last change

	Registered *ledger.Pool // the record of a pool, whose space is that of the entry
	Head       Head
	Block      Record
	Damage     error // why the key or its value cannot be read
}

// EntryOf returns the entry of a key that exists.
func EntryOf(k Keys, kv *mvccpb.KeyValue) Entry {
	key := string(kv.Key)
	n, err := k.Parse(key)
	e := Entry{Key: n, Text: key, Put: true, Revision: kv.ModRevision, Damage: err}
	if err != nil {
		return e
	}
	switch n.Kind {
	case PoolKey:
		if ledger.IsAddressSpace(n.Pool) {
			var of ledger.Derived
			of, e.Damage = decodeAddressSpace(key, kv.Value)
			e.Registered, e.Space = &ledger.Pool{ID: n.Pool, Derived: &of}, ledger.SpaceID(n.Pool)
			break
		}
		var p ledger.Pool
		p, e.Damage = DecodePool(key, n.Pool, kv.Value)
		e.Registered, e.Space = &p, p.Space
	case HeadKey:
		e.Head, e.Damage = readHead(kv)
	case BlockKey:
		e.Block, e.Damage = DecodeRecord(n.Space, n.Prefix, kv)
	case OtherKey:
	}
	return e
}

// roll reads the records of pools, in the order of their keys. The key of an address space follows the key of its pool,
// and its record is completed from the pool's.
type roll struct {
	keys  Keys
	known map[ledger.PoolID]ledger.Pool // pools that were read so far
}

func newRoll(k Keys) roll { return roll{k, map[ledger.PoolID]ledger.Pool{}} }

// entry returns the entry of a pool. An address space cannot be read without its pool.
func (r roll) entry(kv *mvccpb.KeyValue) Entry {
	e := EntryOf(r.keys, kv)
	if of, is := ledger.AddressSpaceOf(e.Pool); is && e.Damage == nil {
		above, known := r.known[of]
		p := e.Registered.Derived.In(above)
		switch {
		case !known:
			e.Damage = &ledger.DamageError{Key: e.Text, Err: fmt.Errorf("pool %s is not in the ledger, or cannot be read", of)}
		case p.ID != e.Pool:
			e.Damage = &ledger.DamageError{Key: e.Text, Err: fmt.Errorf("it is for %s of workspace %q, whose ID is %s",
				p.Derived.Scope, p.Derived.Workspace, p.ID)}
		}
		e.Registered = &p
	}
	if e.Damage == nil {
		r.known[e.Pool] = *e.Registered
	}
	return e
}

// all returns the pools that were read.
func (r roll) all() []ledger.Pool { return slices.Collect(maps.Values(r.known)) }
