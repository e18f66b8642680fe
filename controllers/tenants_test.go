package controllers

import (
	"errors"
	"testing"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The names of holders in a ledger depend on --tenants. So a controller with the other value refuses the ledger.
func TestLedger_RefusesOtherTenants(t *testing.T) {
	etcd := etcdtest.New(t).Client()
	opened := func(cluster ledger.ClusterName) (*Ledger, error) {
		l := NewLedger(etcd, Workspace{Cluster: cluster, Path: StandalonePath}, allocator.Options{})
		return l, l.open(t.Context(), "127.0.0.1:1")
	}
	first, err := opened("uid")
	must.Do(t, err)
	must.Get(first.Pools().Register(t.Context(), testbed.Pool("uid", "p", "10.0.0.0/24")))(t)
	must.Do(t, first.Close())
	if other, err := opened(ledger.ByNamespace("uid")); !errors.Is(err, errTenants) {
		t.Errorf("the ledger is opened with %v, want %v", err, errTenants)
		_ = other.Close()
	}
	again, err := opened("uid")
	must.Do(t, err)
	must.Do(t, again.Close())
}
