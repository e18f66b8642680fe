package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/must"
)

// NewEtcd starts an etcd for the ledger of replicas: three processes as members, which sync to disk and know clients
// by their certificates. Its Flags are for the controllers that use it.
func NewEtcd(t testing.TB) *etcd.Cluster {
	t.Helper()
	dir := t.TempDir()
	secure := must.Get(etcd.Certificates(dir))(t)
	store, err := etcd.New(t.Context(), etcd.Options{Dir: dir, Members: 3, Fsync: true, TLS: secure})
	must.Ends(t, store.Close)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Replicas are controllers of one platform. One of them leads.
type Replicas []*Platform

// election gives the leader more time to renew its lease than the usual three seconds. If the kcp of all tests stands
// still for longer than that, a leader ends, and nobody starts it again here.
var election = []string{
	"--leader-elect", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=7s", "--leader-elect-retry-period=1s",
}

// Replicas returns the same platform with n other controllers that elect a leader. They are not started and get these
// flags, which must include those of an etcd.
func (p *Platform) Replicas(t testing.TB, n int, flags ...string) Replicas {
	t.Helper()
	flags = slices.Concat(election, flags)
	replicas := make(Replicas, n)
	for i := range replicas {
		replicas[i] = p.Replica(t, fmt.Sprint("replica-", i), flags...)
	}
	return replicas
}

// Start starts all of them. The first to be ready leads.
func (r Replicas) Start(t testing.TB) {
	t.Helper()
	for _, replica := range r {
		replica.StartController(t)
	}
}

// Leader waits until a replica leads that is not in except, and returns it.
func (r Replicas) Leader(t testing.TB, except ...*Platform) *Platform {
	t.Helper()
	var leader *Platform
	Eventually(t, "a replica to lead", func(ctx context.Context) error {
		for _, replica := range r.without(except) {
			once, cancel := context.WithTimeout(ctx, time.Second)
			leads, err := replica.process.Leads(once)
			cancel()
			if err == nil && leads {
				leader = replica
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader
}

// without returns the replicas that are not in except.
func (r Replicas) without(except []*Platform) Replicas {
	var rest Replicas
	for _, replica := range r {
		if !slices.Contains(except, replica) {
			rest = append(rest, replica)
		}
	}
	return rest
}
