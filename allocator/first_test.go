package allocator

import (
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// firstLedger is a ledger as the first program wrote it, key and value, below the usual
// prefix: a pool with an exclusion, a child carved from it, a pool that drains; a block
// of each, and one that is retained.
const firstLedger = `
ledger {"v":1,"id":"8d7e5ca2a1b34f0f9c1f3a5f1f6f2c11"}
workspaces/platform/roots {"v":1}
workspaces/tenant/roots {"v":1}
pools/pool {"v":1,"space":"pool","cidr":"10.0.0.0/24","excluded":["10.0.0.0/28"],"state":"open","cluster":"platform","name":"internal"}
pools/child {"v":1,"space":"child","cidr":"10.0.0.64/26","parent":"pool","state":"open","cluster":"platform","name":"child"}
pools/drained {"v":1,"space":"drained","cidr":"2001:db8::/64","state":"draining","cluster":"tenant","name":"drained"}
spaces/pool/head {"v":1,"n":7}
spaces/pool/blocks/010.000.000.016-28 {"v":1,"pool":"pool","claim":"web","cluster":"tenant","ns":"default","name":"web","class":"internal","policy":"Delete","state":"bound","at":"2026-01-02T03:04:05.006Z"}
spaces/pool/blocks/010.000.000.032-30 {"v":1,"pool":"pool","claim":"kept","cluster":"tenant","ns":"default","name":"kept","class":"internal","policy":"Retain","state":"retained","at":"2026-01-02T03:04:06Z"}
spaces/pool/blocks/010.000.000.064-26 {"v":1,"pool":"pool","claim":"child","cluster":"platform","name":"child","policy":"Delete","state":"bound","at":"2026-01-02T03:04:07Z"}
spaces/child/head {"v":1,"n":2}
spaces/child/blocks/010.000.000.064-28 {"v":1,"pool":"child","claim":"db","cluster":"tenant","ns":"default","name":"db","policy":"Delete","state":"bound","at":"2026-01-02T03:04:08Z"}
spaces/drained/head {"v":1,"n":3}
spaces/drained/blocks/2001:0db8:0000:0000:0000:0000:0000:0000-080 {"v":1,"pool":"drained","claim":"late","cluster":"tenant","ns":"default","name":"late","policy":"Delete","state":"bound","at":"2026-01-02T03:04:09Z"}
claims/web {"v":1,"space":"pool","prefix":"10.0.0.16/28"}
claims/kept {"v":1,"space":"pool","prefix":"10.0.0.32/30"}
claims/child {"v":1,"space":"pool","prefix":"10.0.0.64/26"}
claims/db {"v":1,"space":"child","prefix":"10.0.0.64/28"}
claims/late {"v":1,"space":"drained","prefix":"2001:db8::/80"}
`

// What the first program wrote is opened, given out around, released and kept.
func TestFirstLedger(t *testing.T) {
	l := &fixture{t: t, etcd: etcdtest.New(t)}
	for line := range strings.Lines(strings.TrimSpace(firstLedger)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		must.Get(l.etcd.Client().Put(t.Context(), store.DefaultPrefix+"/"+key, value))(t)
	}
	l.Allocator = l.open()
	if id := l.Recovery().LedgerID(); id != "8d7e5ca2a1b34f0f9c1f3a5f1f6f2c11" {
		t.Errorf("the ledger is %s now", id)
	}
	l.sameAsLedger()
	if kept, ok, err := l.Lookup(t.Context(), "kept"); err != nil || !ok || kept.State != ledger.Retained || kept.Policy != ledger.Retain {
		t.Errorf("the retained block is %+v, %t, %v", kept, ok, err)
	}
	if p, ok := l.Pools().Get("drained"); !ok || p.State != ledger.PoolDraining {
		t.Errorf("the pool that drains is %+v, %t", p, ok)
	}

	l.gets(request("pool", "web", 28), "10.0.0.16/28")
	l.gets(request("pool", "next", 28), "10.0.0.48/28")
	l.gets(request("child", "beside", 28), "10.0.0.80/28")
	for _, claim := range []ledger.ClaimID{"web", "db", "late"} {
		l.free(claim)
	}
	l.waitGone("drained")
	l.sameAsLedger()
}
