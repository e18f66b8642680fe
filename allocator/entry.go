package allocator

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Entry is what one key says, as it was read or as an event of the watch has brought it.
// Beside the fields of the key, only those of its kind are set.
type Entry struct {
	name
	Text     string // the key itself
	Put      bool   // else it was deleted
	Created  bool   // it was put, and was not there before
	Revision int64  // of its last change

	Registered Pool // that was put; the space of the entry is that of the pool
	Head       head
	Block      record
	Writer     string // that keeps the list of waiters
	Turn       Turn   // that a writer asks for
	Damage     error  // why what was put cannot be read
}

// deleted is the entry of a key that is gone.
func (k keyspace) deleted(kv *mvccpb.KeyValue) Entry {
	key := string(kv.Key)
	n, err := k.parse(key)
	return Entry{name: n, Text: key, Revision: kv.ModRevision, Damage: err}
}

// entry is that of a key that is there.
func (k keyspace) entry(kv *mvccpb.KeyValue) Entry {
	key := string(kv.Key)
	n, err := k.parse(key)
	e := Entry{name: n, Text: key, Put: true, Created: kv.CreateRevision == kv.ModRevision, Revision: kv.ModRevision, Damage: err}
	if err != nil {
		return e
	}
	switch n.kind {
	case poolKey:
		e.Registered, e.Damage = decodePool(key, n.pool, kv.Value)
		e.space = e.Registered.Space
	case headKey:
		e.Head, e.Damage = readHead(kv)
	case waitersKey:
		e.Writer = decodeWriter(kv.Value)
	case turnKey:
		e.Turn, e.Damage = decodeTurn(kv)
	case blockKey:
		e.Block, e.Damage = decodeRecord(n.space, n.prefix, kv)
	case otherKey, rootsKey, quotaKey, reservationKey:
	}
	return e
}
