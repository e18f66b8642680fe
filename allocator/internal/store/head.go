package store

import (
	"cmp"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Head is the head of a space. Revision 0: there is none.
type Head struct {
	Revision, Count int64 // Count is the number of changes to the space
	Created         int64 // revision at which it was first put
	Version         int64 // how often it was put since then, that time included
	Value           string
	Damage          error // why the value cannot be read; then the count is not known
}

// Next returns the head that is put after this one. by names its transaction, as no other one is named, so that the
// writer knows the head again; empty: it has no name.
func (h Head) Next(count int64, by string) Head {
	return Head{Count: count, Created: h.Created, Version: h.Version + 1, Value: EncodeHead(count, by)}
}

// at returns the head, which was put at the revision.
func (h Head) at(revision int64) Head {
	h.Revision, h.Created = revision, cmp.Or(h.Created, revision)
	return h
}

// readHead reads the head from its key.
func readHead(kv *mvccpb.KeyValue) (Head, error) {
	count, err := decodeHead(string(kv.Key), kv.Value)
	return Head{Revision: kv.ModRevision, Count: count, Created: kv.CreateRevision, Version: kv.Version, Value: string(kv.Value), Damage: err}, err
}

// Same compares the head with the one in the ledger. The revision is enough, unless the
// ledger was restored from an older copy: then two changes may have the same revision. Their
// counts differ, because the count goes on from the published one (see Resume).
func (h Head) Same(key string) []clientv3.Cmp {
	if h.Revision == 0 {
		return Cmps(Absent(key))
	}
	return Cmps(At(key, h.Revision), clientv3.Compare(clientv3.Value(key), "=", h.Value))
}

// Precedes reports whether the ledger has gone back from the head that was seen to this one. An
// operator may restore etcd with higher revisions, so that watches notice. The count shows it
// even then. A head that cannot be read shows nothing.
func (h Head) Precedes(seen Head) bool {
	return h.Damage == nil && h.Revision > 0 && h.Created <= seen.Revision && h.Count < seen.Count
}
