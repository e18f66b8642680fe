package pool

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// The number of changes that a pool shows tells whether the ledger is an older copy. While the head of its space cannot be read,
// nobody knows the number, and the pool shows the former one.
func TestReconcile_AHeadThatCannotBeRead(t *testing.T) {
	t.Parallel()
	pool := gen.Pool("p", gen.CIDR("10.0.0.0/24"))
	id := ledger.PoolID(pool.UID)
	etcd := etcdtest.New(t)
	alloc := testbed.Ledger(t, etcd.Client(), allocator.Options{}, testbed.Pool("w", string(id), "10.0.0.0/24"))
	known := directory.New(directory.Workspace{Cluster: "platform"})
	workspace := testbed.NewWorkspace(t)
	p := &pass{
		Reconciler: &Reconciler{Options: Options{
			Ledger: views.Of(alloc), Adoption: adopted{}, Directory: known,
			Catalog: &catalog.Catalog{Clusters: testbed.Clusters{"w": workspace, "platform": workspace}, Directory: known},
		}, now: time.Now},
		cluster: workspace, pool: pool, id: id, owner: directory.Workspace{Cluster: "w"},
	}
	for range 2 { // the finalizer comes first
		must.Do(t, p.reconcile(t.Context()))
	}
	had := *pool.Status.Ledger
	revision := must.Get(etcd.Client().Put(t.Context(), "/ipam/v1/spaces/"+string(id)+"/head", "{"))(t).Header.Revision
	for alloc.Revision() < revision && t.Context().Err() == nil {
		_, _, _, _ = alloc.Pools().Read(t.Context(), id)
	}
	must.Do(t, p.reconcile(t.Context()))
	if now := *pool.Status.Ledger; had.Changes == 0 || now != had {
		t.Errorf("the pool shows %+v, want %+v as before", now, had)
	}
}
