package store

import (
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Entry is one key and its value, as it was read, or as a transaction has put it. Apart from the
// fields of the key, only those of its kind are set.
type Entry struct {
	Key
	Text     string // the key itself
	Put      bool   // else it was deleted
	Retired  bool   // this process has retired the pool
	Revision int64  // of its last change

	Registered *ledger.Pool // the record of a pool, whose space is that of the entry
	Head       Head
	Block      Record
	Damage     error // why the key or its value cannot be read
}

// EntryOf is the entry of a key that is there.
func EntryOf(k Keys, kv *mvccpb.KeyValue) Entry {
	key := string(kv.Key)
	n, err := k.Parse(key)
	e := Entry{Key: n, Text: key, Put: true, Revision: kv.ModRevision, Damage: err}
	if err != nil {
		return e
	}
	switch n.Kind {
	case PoolKey:
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
