package simetcd

import (
	"bytes"
	"cmp"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// maxTxnOps is how many operations a transaction may have, by etcd's default.
const maxTxnOps = 128

// txn reads and writes at one revision.
type txn struct {
	*keyspace
	next int64 // the revision of its writes
}

// begin returns a transaction.
func (k *keyspace) begin() *txn { return &txn{keyspace: k, next: k.rev + 1} }

// now returns the revision that the transaction sees: its own once it has written.
func (t *txn) now() int64 {
	if n := len(t.log); n > 0 && t.log[n-1].ModRevision == t.next {
		return t.next
	}
	return t.rev
}

// commit makes the transaction's revision the current one, and returns the current revision.
func (t *txn) commit() int64 {
	t.rev = t.now()
	return t.rev
}

// put stores a value, for a request without a transaction.
func (k *keyspace) put(r *pb.PutRequest) (*pb.PutResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	t := k.begin()
	defer t.commit()
	return t.put(r), nil
}

// remove deletes a range, for a request without a transaction.
func (k *keyspace) remove(r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if len(r.Key) == 0 {
		return nil, rpctypes.ErrGRPCEmptyKey
	}
	t := k.begin()
	defer t.commit()
	return t.remove(r), nil
}

func (t *txn) put(r *pb.PutRequest) *pb.PutResponse {
	if r.PrevKv || r.IgnoreValue || r.IgnoreLease || r.Lease != 0 {
		panic("simetcd: no leases, and no options of a put")
	}
	v := &version{
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), CreateRevision: t.next, ModRevision: t.next, Version: 1,
	}
	if old := t.at(string(r.Key), t.next); old != nil {
		v.CreateRevision, v.Version = old.CreateRevision, old.Version+1
	}
	t.add(v)
	return &pb.PutResponse{Header: header(t.next)}
}

func (t *txn) remove(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	if r.PrevKv {
		panic("simetcd: no previous values")
	}
	resp := &pb.DeleteRangeResponse{}
	for _, name := range t.within(r.Key, r.RangeEnd) {
		if t.at(name, t.next) != nil {
			t.add(&version{Key: []byte(name), ModRevision: t.next})
			resp.Deleted++
		}
	}
	resp.Header = header(t.now())
	return resp
}

// transact runs a transaction. A transaction that fails writes nothing.
func (k *keyspace) transact(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r); err != nil {
		return nil, err
	}
	resp, ops := &pb.TxnResponse{Succeeded: true}, r.Success
	for _, c := range r.Compare {
		resp.Succeeded = resp.Succeeded && k.holds(c)
	}
	if !resp.Succeeded {
		ops = r.Failure
	}
	for _, op := range ops {
		if get := op.GetRequestRange(); get != nil {
			if err := k.checkRange(get); err != nil {
				return nil, err
			}
		}
	}
	t := k.begin()
	for _, op := range ops {
		resp.Responses = append(resp.Responses, t.run(op))
	}
	resp.Header = header(t.commit())
	return resp, nil
}

func (t *txn) run(op *pb.RequestOp) *pb.ResponseOp {
	switch op := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: t.page(op.RequestRange, t.now())}}
	case *pb.RequestOp_RequestPut:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponsePut{ResponsePut: t.put(op.RequestPut)}}
	case *pb.RequestOp_RequestDeleteRange:
		return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseDeleteRange{
			ResponseDeleteRange: t.remove(op.RequestDeleteRange),
		}}
	}
	panic(fmt.Sprintf("simetcd: no %T in a transaction", op.Request))
}

// checkTxn returns why etcd refuses a transaction before it runs.
func checkTxn(r *pb.TxnRequest) error {
	if max(len(r.Compare), len(r.Success), len(r.Failure)) > maxTxnOps {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.Compare {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	return cmp.Or(checkKeys(r.Success), checkKeys(r.Failure), checkTwice(r.Success), checkTwice(r.Failure))
}

func checkKeys(ops []*pb.RequestOp) error {
	for _, op := range ops {
		if len(op.GetRequestRange().GetKey())+len(op.GetRequestPut().GetKey())+len(op.GetRequestDeleteRange().GetKey()) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	return nil
}

// checkTwice returns an error if operations write a key twice.
func checkTwice(ops []*pb.RequestOp) error {
	puts := map[string]bool{}
	for _, op := range ops {
		put := op.GetRequestPut()
		if put == nil {
			continue
		}
		if puts[string(put.Key)] {
			return rpctypes.ErrGRPCDuplicateKey
		}
		puts[string(put.Key)] = true
		for _, other := range ops {
			gone := other.GetRequestDeleteRange()
			if gone != nil && contains(gone.Key, gone.RangeEnd, put.Key) {
				return rpctypes.ErrGRPCDuplicateKey
			}
		}
	}
	return nil
}

// holds reports whether a comparison holds.
func (k *keyspace) holds(c *pb.Compare) bool {
	if len(c.RangeEnd) > 0 || c.Target == pb.Compare_LEASE {
		panic("simetcd: no comparisons of ranges or leases")
	}
	v := k.at(string(c.Key), k.rev)
	if v == nil && c.Target == pb.Compare_VALUE {
		return false
	}
	if v == nil {
		v = &version{}
	}
	d := 0
	switch c.Target {
	case pb.Compare_VERSION:
		d = cmp.Compare(v.Version, c.GetVersion())
	case pb.Compare_CREATE:
		d = cmp.Compare(v.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		d = cmp.Compare(v.ModRevision, c.GetModRevision())
	default:
		d = bytes.Compare(v.Value, c.GetValue())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return d == 0
	case pb.Compare_GREATER:
		return d > 0
	case pb.Compare_LESS:
		return d < 0
	default:
		return d != 0
	}
}
