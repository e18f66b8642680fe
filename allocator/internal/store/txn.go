package store

import (
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The parts that transactions are made of.

// At compares that a key was last changed at the revision; 0: that there is no such key.
func At(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// Absent compares that there is no such key.
func Absent(key string) clientv3.Cmp { return At(key, 0) }

// Get reads a key.
func Get(key string) clientv3.Op { return clientv3.OpGet(key) }

// Put writes a key.
func Put(key, value string) clientv3.Op { return clientv3.OpPut(key, value) }

// Remove deletes a key.
func Remove(key string) clientv3.Op { return clientv3.OpDelete(key) }

// Ops is a list of operations.
func Ops(ops ...clientv3.Op) []clientv3.Op { return ops }

// Cmps is a list of comparisons.
func Cmps(cmps ...clientv3.Cmp) []clientv3.Cmp { return cmps }

// Results are the answers to the operations of a transaction, in their order.
type Results []*etcdserverpb.ResponseOp

// Found returns the key that the i-th operation, a get, has read; nil if there is no such key.
func (r Results) Found(i int) *mvccpb.KeyValue {
	if i >= len(r) {
		return nil
	}
	kvs := r[i].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return nil
	}
	return kvs[0]
}

// Revision returns the revision at which the key of result i was last changed; 0: there is no such key.
func (r Results) Revision(i int) int64 {
	kv := r.Found(i)
	if kv == nil {
		return 0
	}
	return kv.ModRevision
}
