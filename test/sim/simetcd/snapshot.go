package simetcd

import pb "go.etcd.io/etcd/api/v3/etcdserverpb"

// Snapshot is a backup of all keys with their versions.
type Snapshot struct{ keys *keyspace }

// Snapshot copies all keys with their versions.
func (e *Etcd) Snapshot() *Snapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &Snapshot{e.keys.clone()}
}

// Restore replaces all keys by a snapshot, and ends all watches. A bump above zero raises the revision by bump, and
// compacts all that is older, as etcdutl does by --bump-revision and --mark-compacted.
func (e *Etcd) Restore(s *Snapshot, bump int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keys = s.keys.clone()
	if bump > 0 {
		e.keys.rev += bump
		if _, err := e.keys.compact(e.keys.rev); err != nil {
			panic(err)
		}
	}
	e.restart()
}

// Delete deletes a key, as etcdctl does.
func (e *Etcd) Delete(key string) {
	if _, err := e.Apply(&pb.DeleteRangeRequest{Key: []byte(key)}); err != nil {
		panic(err)
	}
}

// Break ends all watches, and loses the requests that are on their way, as a server that restarts does.
func (e *Etcd) Break() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.restart()
}
