package simetcd

import (
	"bytes"
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// version is the state of a key from a revision on. If the key was deleted then, it has neither a value nor a
// Version.
type version = mvccpb.KeyValue

// keyspace stores the versions of keys. It is for one goroutine. A version never changes once it is stored.
type keyspace struct {
	rev       int64                 // of the last change
	compacted int64                 // of the last compaction; zero: there was none
	versions  map[string][]*version // by key, in the order of revisions
	names     []string              // the keys of versions, in order
	log       []*version            // all versions since the compaction, in the order of revisions
}

// clone copies a keyspace.
func (k *keyspace) clone() *keyspace {
	c := *k
	c.names, c.log, c.versions = slices.Clone(k.names), slices.Clone(k.log), maps.Clone(k.versions)
	for name, all := range c.versions {
		c.versions[name] = slices.Clone(all)
	}
	return &c
}

// at returns the version of a key at a revision; nil if the key was absent.
func (k *keyspace) at(name string, rev int64) *version {
	all := k.versions[name]
	i := since(all, rev+1)
	if i == 0 || all[i-1].Version == 0 {
		return nil
	}
	return all[i-1]
}

// since returns the index of the first version at or after a revision.
func since(all []*version, rev int64) int {
	i, _ := slices.BinarySearchFunc(all, rev, func(v *version, rev int64) int {
		if v.ModRevision < rev {
			return -1
		}
		return 1
	})
	return i
}

// within returns the keys of a range, in order. Some of them may be absent now.
func (k *keyspace) within(from, end []byte) []string {
	first, found := slices.BinarySearch(k.names, string(from))
	last := len(k.names)
	switch {
	case len(end) == 0 && found:
		last = first + 1
	case len(end) == 0:
		last = first
	case !isOpen(end):
		last, _ = slices.BinarySearch(k.names, string(end))
	}
	return k.names[first:max(first, last)]
}

// isOpen reports whether a range has no end.
func isOpen(end []byte) bool { return len(end) == 1 && end[0] == 0 }

// contains reports whether a range contains a key.
func contains(from, end, key []byte) bool {
	if len(end) == 0 {
		return bytes.Equal(key, from)
	}
	return bytes.Compare(key, from) >= 0 && (isOpen(end) || bytes.Compare(key, end) < 0)
}

// add stores a version.
func (k *keyspace) add(v *version) {
	name := string(v.Key)
	if _, ok := k.versions[name]; !ok {
		i, _ := slices.BinarySearch(k.names, name)
		k.names = slices.Insert(k.names, i, name)
	}
	k.versions[name] = append(k.versions[name], v)
	k.log = append(k.log, v)
}

// compact forgets the versions that were replaced up to a revision.
func (k *keyspace) compact(rev int64) (*pb.CompactionResponse, error) {
	switch {
	case rev <= k.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	case rev > k.rev:
		return nil, rpctypes.ErrGRPCFutureRev
	}
	k.compacted = rev
	for name, all := range k.versions {
		first := max(0, since(all, rev+1)-1)
		if all[first].Version == 0 {
			first++
		}
		k.versions[name] = slices.Clone(all[first:])
		if first == len(all) {
			delete(k.versions, name)
		}
	}
	k.names = slices.DeleteFunc(k.names, func(name string) bool { return k.versions[name] == nil })
	k.log = slices.Clone(k.log[since(k.log, rev):])
	return &pb.CompactionResponse{Header: header(k.rev)}, nil
}

// header returns the header of a response at a revision.
func header(rev int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: rev} }
