package store

import (
	"cmp"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Head is the head of a space. Revision 0: there is none.
type Head struct {
	Revision, Count int64
	Created         int64 // revision at which it was first put
	Version         int64 // how often it was put since
	Value           string
}

// Next is the head that is put after this one.
func (h Head) Next(revision, count int64) Head {
	return Head{Revision: revision, Count: count, Created: cmp.Or(h.Created, revision), Version: h.Version + 1, Value: EncodeHead(count)}
}

// readHead is the head as a key holds it.
func readHead(kv *mvccpb.KeyValue) (Head, error) {
	count, err := decodeHead(string(kv.Key), kv.Value)
	return Head{Revision: kv.ModRevision, Count: count, Created: kv.CreateRevision, Version: kv.Version, Value: string(kv.Value)}, err
}

// Same compares the head with the one in the ledger. The revision is enough, unless the
// ledger was restored from an older copy: then one revision is given twice, but not with
// the same count, which goes on from beyond what was published (see Resume).
func (h Head) Same(key string) []clientv3.Cmp {
	if h.Revision == 0 {
		return Cmps(Absent(key))
	}
	return Cmps(At(key, h.Revision), clientv3.Compare(clientv3.Value(key), "=", h.Value))
}

// Precedes reports whether a head is of before this one, although it was there already
// when this one was seen: an etcd that is restored may be given revisions that are higher
// than all before, so that watches notice, and the count still tells.
func (h Head) Precedes(seen Head) bool {
	return h.Revision > 0 && h.Created <= seen.Revision && h.Count < seen.Count
}
