package store

import (
	"context"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// officeValue is the value of the head of the ledger, which says who has the office of its one writer.
type officeValue struct {
	V  int    `json:"v"`
	N  int64  `json:"n"`            // how often the office was taken
	By string `json:"by"`           // the process that has it
	At string `json:"at,omitempty"` // where that answers
}

// office is the head of the ledger as this process has put it. Every transaction that writes or compares anything compares it, so that none of this
// process lands after another one has taken the office. No two processes put the same value. nil: this one has put none.
type office struct{ key, value string }

// same compares the head with the one that this process has put.
func (o *office) same() []clientv3.Cmp {
	if o == nil {
		return nil
	}
	return Cmps(clientv3.Compare(clientv3.Value(o.key), "=", o.value))
}

// look reads the head, last, where a comparison has failed.
func (o *office) look() []clientv3.Op {
	if o == nil {
		return nil
	}
	return Ops(Get(o.key))
}

// lost reports whether a transaction has failed because the head is not the one that this process has put.
func (o *office) lost(resp *clientv3.TxnResponse) bool {
	if o == nil || resp.Succeeded {
		return false
	}
	return !o.is(Results(resp.Responses).Found(len(resp.Responses) - 1))
}

func (o *office) is(head *mvccpb.KeyValue) bool { return head != nil && string(head.Value) == o.value }

// Candidacy is the attempt of a process to take the office of the one writer from the process that has it. It is not safe
// for concurrent use.
type Candidacy struct {
	store  *Store
	by, at string
	former officeValue
	since  int64 // revision at which the former head was put; 0: there is none
	looked bool  // at the former head
}

// Candidate returns the candidacy of a process that calls itself by, as no other one does, and answers at an address.
func (s *Store) Candidate(by, at string) *Candidacy { return &Candidacy{store: s, by: by, at: at} }

// Leader reads the address at which the process answers that has the office; empty: it has not said, or there is none. It
// may have gone.
func (r Reader) Leader(ctx context.Context) (at string, err error) {
	s := NewStore(r.Client, r.Prefix)
	kv, _, err := s.Get(ctx, s.Keys.Office())
	if err != nil || kv == nil {
		return "", err
	}
	var v officeValue
	err = decode(string(kv.Key), kv.Value, &v)
	return v.At, err
}

// Take puts the head of the ledger. From then on every transaction of the store compares it. After any other error
// than ErrDeposed call it again: if it was the answer alone that was lost, Take finds its own head there. ErrDeposed:
// somebody else has put the head since the first call.
func (c *Candidacy) Take(ctx context.Context) error {
	key := c.store.Keys.Office()
	if !c.looked {
		kv, _, err := c.store.Get(ctx, key)
		if err != nil {
			return err
		}
		if kv != nil {
			if err := decode(key, kv.Value, &c.former); err != nil {
				return err
			}
			c.since = kv.ModRevision
		}
		c.looked = true
	}
	mine := &office{key: key, value: encode(officeValue{V: valueVersion, N: c.former.N + 1, By: c.by, At: c.at})}
	resp, err := c.store.Commit(ctx, Cmps(At(key, c.since)), Ops(Put(key, mine.value)), Ops(Get(key)))
	if err != nil {
		return err
	}
	if !resp.Succeeded && !mine.is(Results(resp.Responses).Found(0)) {
		return c.store.deposed()
	}
	c.store.office.Store(mine)
	return nil
}

// Transaction is one that is carried out only while this process has the office. It is sent once.
type Transaction struct {
	txn    clientv3.Txn
	store  *Store
	office *office // nil: it only reads, or this process has not taken the office
}

// Transact makes a transaction.
func (s *Store) Transact(ctx context.Context, ifs []clientv3.Cmp, then, els []clientv3.Op) Transaction {
	t := Transaction{store: s}
	if len(ifs) > 0 || slices.ContainsFunc(then, func(op clientv3.Op) bool { return !op.IsGet() }) {
		t.office = s.office.Load()
	}
	t.txn = s.Client.Txn(ctx).If(append(ifs, t.office.same()...)...).Then(then...).Else(append(els, t.office.look()...)...)
	return t
}

// Commit sends the transaction. ErrDeposed: it was not carried out, as this process does not have the office any more. Any
// other error is of etcd, and the transaction may have been carried out, or may yet be.
func (t Transaction) Commit() (*clientv3.TxnResponse, error) {
	resp, err := t.txn.Commit()
	if err == nil && t.office.lost(resp) {
		return nil, t.store.deposed()
	}
	return resp, err
}

// deposed notes that the head is not the one that this process has put.
func (s *Store) deposed() error {
	s.Deposed()
	return ledger.ErrDeposed
}
