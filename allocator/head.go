package allocator

import (
	"cmp"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// head is the head of a space. Revision 0: there is none.
type head struct {
	revision, count int64
	created         int64 // revision at which it was first put
	version         int64 // how often it was put since
	value           string
}

// next is the head that is put after this one.
func (h head) next(revision, count int64) head {
	return head{revision: revision, count: count, created: cmp.Or(h.created, revision), version: h.version + 1, value: encodeHead(count)}
}

// readHead is the head as a key holds it.
func readHead(kv *mvccpb.KeyValue) (head, error) {
	count, err := decodeHead(string(kv.Key), kv.Value)
	return head{revision: kv.ModRevision, count: count, created: kv.CreateRevision, version: kv.Version, value: string(kv.Value)}, err
}

// same compares the head with the one in the ledger. The revision is enough, unless the
// ledger was restored from an older copy: then one revision is given twice, but not with
// the same count, which goes on from beyond what was published (see Resume).
func (h head) same(key string) []clientv3.Cmp {
	if h.revision == 0 {
		return every(absent(key))
	}
	return every(at(key, h.revision), clientv3.Compare(clientv3.Value(key), "=", h.value))
}

// precedes reports whether a head is of before this one, although it was there already
// when this one was seen: an etcd that is restored may be given revisions that are higher
// than all before, so that watches notice, and the count still tells.
func (h head) precedes(seen head) bool {
	return h.revision > 0 && h.created <= seen.revision && h.count < seen.count
}
