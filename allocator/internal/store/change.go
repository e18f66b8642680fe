package store

import (
	"net/netip"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Change is the change of one key of the ledger: the key as a plan has seen it, and the act of the transaction on it.
// The Entry brings the change into memory.
type Change struct {
	Key   string
	Was   int64 // revision of the last change, which is compared; 0: there is no such key; Any: it is not compared
	Else  error // the answer to the call if that comparison fails
	Verb  Verb
	Value string // the value that is put
	Entry *Entry // brings the change into memory; nil: memory does not have the key

	// Tenure is a tenure that ends. Such a change has no key of its own: the transaction writes the tenures of
	// neighbouring blocks into one key. nil: the change is one of a key.
	Tenure *Farewell
}

// Any is the revision of a key that is not compared.
const Any = -1

// Verb is the act of a transaction on a key.
type Verb int

// The verbs of changes.
const (
	// Stays: the key stays as it is. An entry of it changes memory all the same.
	Stays Verb = iota
	// IsPut: the key is put.
	IsPut
	// IsRemoved: the key is removed.
	IsRemoved
)

// At makes the transaction compare that the key was last changed at the revision; 0: that there is no such key. If the
// comparison fails, the call gets the error of the argument otherwise.
func (c Change) At(revision int64, otherwise error) Change {
	c.Was, c.Else = revision, otherwise
	return c
}

// Committed returns the entry of the change, which was committed at the revision. Call it only once the plan with the
// change is done.
func (c Change) Committed(revision int64) *Entry {
	e := c.Entry
	e.Revision, e.Block.Revision = revision, revision
	if e.Kind == HeadKey {
		e.Head.Revision = revision
	}
	return e
}

// CheckKey returns a change that leaves a key as it is. Call At on it, to make the transaction compare the key.
func CheckKey(key string) Change { return Change{Key: key, Was: Any} }

// EndTenure records the end of a tenure; nil: nothing is recorded.
func EndTenure(f *Farewell) []Change {
	if f == nil {
		return nil
	}
	return []Change{{Was: Any, Tenure: f}}
}

// entry adds the entry of a key that is put or removed.
func (c Change) entry(e Entry) Change {
	e.Text, e.Put = c.Key, c.Verb == IsPut
	c.Entry = &e
	return c
}

// PutBlock puts a block, whose encoded value the caller has.
func (k SpaceKeys) PutBlock(r Record, value string) Change {
	r.Space = k.id
	key := Key{Kind: BlockKey, Space: k.id, Prefix: r.Prefix}
	return Change{Key: k.Block(r.Prefix), Was: Any, Verb: IsPut, Value: value}.entry(Entry{Key: key, Block: r})
}

// RemoveBlock removes a block.
func (k SpaceKeys) RemoveBlock(p netip.Prefix) Change {
	key := Key{Kind: BlockKey, Space: k.id, Prefix: p}
	return Change{Key: k.Block(p), Was: Any, Verb: IsRemoved}.entry(Entry{Key: key})
}

// PutClaim notes that a claim has the block at a prefix of the space.
func (k SpaceKeys) PutClaim(id ledger.ClaimID, p netip.Prefix) Change {
	return Change{Key: k.Claim(id), Was: Any, Verb: IsPut, Value: EncodeClaim(k.id, p)}
}

// RemoveClaim removes the key of a claim.
func (k Keys) RemoveClaim(id ledger.ClaimID) Change {
	return Change{Key: k.Claim(id), Was: Any, Verb: IsRemoved}
}

// PutPool puts the record of a pool.
func (k Keys) PutPool(p ledger.Pool) Change {
	e := Entry{Key: Key{Kind: PoolKey, Space: p.Space, Pool: p.ID}, Registered: &p}
	return Change{Key: k.Pool(p.ID), Was: Any, Verb: IsPut, Value: EncodePool(p)}.entry(e)
}

// KeepPool leaves the record of a pool as it is, and changes what memory alone has of the pool.
func (k Keys) KeepPool(p ledger.Pool) Change {
	c := k.PutPool(p)
	c.Verb, c.Value = Stays, ""
	return c
}

// RemovePool removes the record of a pool that is retired.
func (k Keys) RemovePool(p ledger.Pool) Change {
	e := Entry{Key: Key{Kind: PoolKey, Space: p.Space, Pool: p.ID}, Retired: true}
	return Change{Key: k.Pool(p.ID), Was: Any, Verb: IsRemoved}.entry(e)
}

// PutHead puts the head of the space.
func (k SpaceKeys) PutHead(count int64) Change {
	e := Entry{Key: Key{Kind: HeadKey, Space: k.id}, Head: Head{Count: count}}
	return Change{Key: k.Head(), Was: Any, Verb: IsPut, Value: EncodeHead(count)}.entry(e)
}

// RemoveHead removes the head of the space, and so ends the space.
func (k SpaceKeys) RemoveHead() Change {
	return Change{Key: k.Head(), Was: Any, Verb: IsRemoved}.entry(Entry{Key: Key{Kind: HeadKey, Space: k.id}})
}
