package simetcd

import (
	"fmt"
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Etcd is the server. It is safe for concurrent use.
type Etcd struct {
	mu    sync.Mutex
	keys  *keyspace
	epoch int           // grows when all watches end
	news  chan struct{} // closed and replaced at each change
}

// New returns an empty server.
func New() *Etcd {
	return &Etcd{keys: &keyspace{rev: 1, versions: map[string][]*version{}}, news: make(chan struct{})}
}

// Apply answers one request of the KV service. An error is one of rpctypes, as a server sends it.
func (e *Etcd) Apply(request any) (any, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.keys.rev
	defer func() {
		if e.keys.rev != before {
			e.wake()
		}
	}()
	switch r := request.(type) {
	case *pb.RangeRequest:
		return e.keys.list(r)
	case *pb.PutRequest:
		return e.keys.put(r)
	case *pb.DeleteRangeRequest:
		return e.keys.remove(r)
	case *pb.TxnRequest:
		return e.keys.transact(r)
	case *pb.CompactionRequest:
		return e.keys.compact(r.Revision)
	}
	panic(fmt.Sprintf("simetcd: no answer to a %T", request))
}

// Compact forgets the versions that were replaced up to a revision.
func (e *Etcd) Compact(rev int64) error {
	_, err := e.Apply(&pb.CompactionRequest{Revision: rev})
	return err
}

// Revision returns the current revision.
func (e *Etcd) Revision() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.keys.rev
}

// Dump returns the current value of each key.
func (e *Etcd) Dump() map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := map[string]string{}
	for _, name := range e.keys.names {
		if v := e.keys.at(name, e.keys.rev); v != nil {
			all[name] = string(v.Value)
		}
	}
	return all
}

// wake wakes the watches. mu is held.
func (e *Etcd) wake() {
	close(e.news)
	e.news = make(chan struct{})
}

// restart ends all watches. mu is held.
func (e *Etcd) restart() {
	e.epoch++
	e.wake()
}

// current returns the epoch.
func (e *Etcd) current() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch
}
