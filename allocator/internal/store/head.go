package store

import "go.etcd.io/etcd/api/v3/mvccpb"

// Head is the head of a space, which counts the changes to the space. Revision 0: the space has no head.
type Head struct {
	Revision, Count int64
	Damage          error // why the value cannot be read; then the count is not known
}

// readHead reads the head from its key.
func readHead(kv *mvccpb.KeyValue) (Head, error) {
	count, err := decodeHead(string(kv.Key), kv.Value)
	return Head{Revision: kv.ModRevision, Count: count, Damage: err}, err
}
