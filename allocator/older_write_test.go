package allocator

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func putTogether(t *testing.T, e *etcdtest.Etcd, keys []olderKey) (revision int64) {
	t.Helper()
	var puts []clientv3.Op
	for _, k := range keys {
		puts = append(puts, clientv3.OpPut(k.key, k.value))
	}
	resp := must.Get(e.Client().Txn(t.Context()).Then(puts...).Commit())(t)
	return resp.Header.Revision
}

// readLedger reads the keys of a ledger in the order of their revisions.
func readLedger(t *testing.T, e *etcdtest.Etcd) (keys []olderKey) {
	t.Helper()
	resp := must.Get(e.Client().Get(t.Context(), store.DefaultPrefix+"/", clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend)))(t)
	for _, kv := range resp.Kvs {
		keys = append(keys, olderKey{kv.ModRevision, string(kv.Key), string(kv.Value)})
	}
	return keys
}

// writeLedgerFile writes a ledger with all that this program may write.
func writeLedgerFile(t *testing.T, file string) {
	t.Helper()
	c := newEverything(t)
	var b strings.Builder
	fmt.Fprintf(&b, "at %s\n", c.clock.now().Format(time.RFC3339))
	for _, k := range readLedger(t, c.etcd) {
		fmt.Fprintf(&b, "%d %s %s\n", k.revision, k.key, k.value)
	}
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must.Do(t, os.WriteFile(file, []byte(b.String()), 0o644))
}

// newEverything makes a ledger that has each kind of pool, block, slice and tenure.
func newEverything(t *testing.T) *chronicle {
	t.Helper()
	c := newChronicle(t)
	c.settings.Cooldown = func(b ledger.Block) (time.Duration, error) {
		if strings.HasPrefix(b.Holder.Name, "cool") {
			return 3 * time.Hour, nil
		}
		return 0, nil
	}
	must.Do(t, c.Close())
	c.Allocator = c.reopen()
	c.somePools()
	c.someBlocks()
	c.someReservations()
	c.someDisputes()
	c.someEnds()
	c.someDerived()
	put := func(cluster ledger.ClusterName, state ledger.SliceState, child ledger.PoolID) {
		c.putSlice(ledger.Slice{Pool: "p", Cluster: cluster, Binding: "binding", Child: child, State: state, Since: c.clock.now()}, 8, nil)
	}
	put("first", ledger.SliceGiven, "child")
	put("second", ledger.SliceWaiting, "")
	put("third", ledger.SliceDeclined, "")
	must.Get(c.etcd.Client().Put(t.Context(), store.DefaultPrefix+"/replicas/leader", `{"v":1,"at":"10.0.0.7:9443"}`))(t)
	c.waitIdle(t)
	return c
}

func (c *chronicle) somePools() {
	must.Do(c.t, c.Pools().Exclude(c.t.Context(), "p", []netip.Prefix{prefix("10.0.0.240/28"), prefix("10.0.0.0/30")}))
	c.pool("six", "2001:db8::/32")
	for _, p := range []ledger.Pool{{ID: "wide", CIDR: prefix("10.1.0.0/24")}, {ID: "part", CIDR: prefix("10.1.0.128/25")}} {
		p.Cluster, p.Name, p.Space = "tenant", string(p.ID), ledger.DomainSpace("tenant", "d")
		must.Get(c.Pools().Register(c.t.Context(), p))(c.t)
	}
	c.pool("frozen", "10.2.0.0/24")
	c.bind(request("frozen", "in-frozen", 28))
	must.Do(c.t, c.Recovery().Freeze(c.t.Context(), "frozen", time.Time{}))
	c.pool("drains", "10.3.0.0/24")
	c.bind(request("drains", "in-drains", 28))
	must.Do(c.t, c.Pools().Drain(c.t.Context(), "drains"))
	must.Get(c.Pools().Carve(c.t.Context(), request("p", "child", 27), ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"}))(c.t)
	c.bind(request("child", "in-child", 32))
	c.wait()
}

func (c *chronicle) someBlocks() {
	c.bind(limited(128, 256, request("p", "limited", 32)))
	kept := request("p", "kept", 32)
	kept.Policy, kept.Class = ledger.Retain, `a "class" of <tenants>`
	c.bind(kept)
	slice := request("p", "slice", 30)
	slice.Slice = true
	c.bind(slice)
	c.bind(request("six", "in-six", 48))
	c.bind(request("wide", "in-wide", 28))
	c.bind(request("part", "in-part", 28))
	for _, name := range []string{"retained", "leased", "promised"} {
		c.bind(request("p", name, 32))
	}
	c.wait()
	c.retain("retained", time.Time{})
	c.retain("leased", c.clock.now().Add(10*time.Hour))
	must.Get(c.Retained().Promise(c.t.Context(), c.retain("promised", time.Time{}), time.Minute))(c.t)
	for _, name := range []string{"cool", "cool-back", "cool-reserved"} {
		c.bind(request("p", name, 31))
	}
	c.wait()
	for _, name := range []ledger.ClaimID{"cool", "cool-back", "cool-reserved"} {
		c.free(name)
	}
	c.wait()
	back := request("p", "cool-back", 31)
	back.Holder.Claim = "came-back"
	c.bind(back)
}

func (c *chronicle) someReservations() {
	c.reserve(reservation("new", 32))
	c.reserve(reservation("asked-twice", 32))
	c.wait()
	c.reserve(reservation("asked-twice", 32))
	c.reserve(reservation("cool-reserved", 31))
	c.reserve(reservation("created", 32))
	c.wait()
	created := confirmation(c.reserve(reservation("created", 32)), "created")
	created.Certain = true
	_, _, err := c.Reservations().Confirm(c.t.Context(), created)
	must.Do(c.t, err)
}

func (c *chronicle) someDisputes() {
	c.adopt("adopted", "10.0.0.128/32", ledger.Bound)
	c.adopt("same-1", "10.0.0.130/32", ledger.Bound)
	c.adopt("same-2", "10.0.0.130/32", ledger.Retained)
	c.adopt("around", "10.0.0.132/30", ledger.Bound)
	c.adopt("inside", "10.0.0.133/32", ledger.Bound)
	_, err := c.Pools().Carve(c.t.Context(), request("six", "torn", 56), ledger.Pool{ID: "torn", Cluster: "tenant", Name: "torn"})
	must.Do(c.t, err)
	rival := exactly(request("six", "rival", 0), c.poolCIDR("torn"))
	must.Get(c.Recovery().Adopt(c.t.Context(), rival, ledger.Bound))(c.t)
}

func (c *chronicle) poolCIDR(id ledger.PoolID) string {
	p, _ := c.Pools().Get(id)
	return p.CIDR.String()
}

func (c *chronicle) someDerived() {
	c.t.Helper()
	scope := ledger.Scope{"network": {APIGroup: "networking.example", Kind: "Network", Name: "vpc-1"}, "location": {Kind: "Location", Name: "ams"}}
	provision := func(parent ledger.PoolID, length int, of ledger.Derived) ledger.Pool {
		excluded := func(cidr netip.Prefix) []netip.Prefix {
			return []netip.Prefix{netip.PrefixFrom(cidr.Addr(), length+16)}
		}
		return must.Get(c.Derived().Provision(c.t.Context(), ledger.Request{Pool: parent, Length: length, Class: of.Class}, ledger.Pool{Cluster: "tenant", Name: of.Class, Derived: &of}, excluded))(c.t)
	}
	network := provision("six", 48, ledger.Derived{Class: "network", Workspace: "tenant", Scope: scope.Only([]string{"network"}),
		Holder: ledger.Holder{Claim: "range", Cluster: "tenant", Namespace: "default", Name: "range"}})
	subnet := provision(network.ID, 64, ledger.Derived{Class: "subnet", Scope: scope, By: "tenant"})
	c.bind(request(subnet.ID, "endpoint", 96))
	shut := provision("six", 48, ledger.Derived{Class: "shut", Scope: scope, Holder: ledger.Holder{Claim: "gone", Cluster: "tenant", Name: "gone"}})
	must.Get(c.Derived().Begin(c.t.Context(), shut.ID, "gone", c.clock.now().Add(time.Minute)))(c.t)
	c.pool("flat", "10.4.0.0/24")
	for _, workspace := range []ledger.ClusterName{"tenant", "other"} {
		s := must.Get(c.Derived().Space(c.t.Context(), "flat", workspace, scope.Only([]string{"network"})))(c.t)
		c.bind(request(s.ID, "flat-of-"+string(workspace), 32))
	}
	c.wait()
}

// someEnds ends a tenure for each cause.
func (c *chronicle) someEnds() {
	c.bind(request("p", "went", 32))
	unbound, leased := c.bind(request("p", "unbound", 32)), c.bind(request("p", "lease-over", 32))
	c.bind(request("p", "first", 32))
	c.adopt("adopted-once", "10.0.0.140/32", ledger.Bound)
	c.adopt("disputed-once", "10.0.0.140/32", ledger.Bound)
	_, err := c.Pools().Carve(c.t.Context(), request("p", "retired", 31), ledger.Pool{ID: "retired", Cluster: "tenant", Name: "retired"})
	must.Do(c.t, err)
	failed := c.reserve(reservation("failed", 32))
	c.wait()
	for _, claim := range []ledger.ClaimID{"went", "adopted-once", "disputed-once", failed.Holder.Claim} {
		c.free(claim)
	}
	must.Do(c.t, c.ReleaseFor(c.t.Context(), unbound, ledger.CauseWorkspaceGone))
	must.Do(c.t, c.ReleaseFor(c.t.Context(), leased, ledger.CauseLeaseExpired))
	must.Do(c.t, c.Pools().Retire(c.t.Context(), "retired"))
	must.Get(c.Retained().Reuse(c.t.Context(), c.retain("first", time.Time{}), successor("first", "second")))(c.t)
}

// shapes finds the kinds of keys in a ledger, each with the fields and the words that its values have.
func shapes(t *testing.T, keys []olderKey) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	id := regexp.MustCompile(`^(spaces/)[^/]+|^(claims|pools)/.*|^(workspaces/).*(/roots)|^(quotas|turns|history)/.*|^(slices/)[^/]+(/head)|^(slices/).*|(/blocks)/.*`)
	words := []string{"v", "state", "policy", "y"} // whose values are from a list
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for field, value := range v {
				walk(at+" "+field, value)
				if slices.Contains(words, field) {
					found[fmt.Sprint(at, " ", field, "=", value)] = true
				}
			}
		case []any:
			for _, value := range v {
				walk(at, value)
			}
		default:
			found[at] = true
		}
	}
	for _, k := range keys {
		kind := strings.TrimPrefix(k.key, store.DefaultPrefix+"/")
		for before := ""; before != kind; {
			before, kind = kind, id.ReplaceAllString(kind, "$1$2$3$4$5$6$7$8$9")
		}
		var v any
		must.Do(t, json.Unmarshal([]byte(k.value), &v))
		walk(kind, v)
	}
	return found
}

// The files have all that the program writes, so that later programs are tested with it.
func TestOlder_HasWhatIsWrittenNow(t *testing.T) {
	written, kept := shapes(t, readLedger(t, newEverything(t).etcd)), map[string]bool{}
	for _, file := range olderFiles(t) {
		_, keys := readLedgerFile(t, file)
		maps.Copy(kept, shapes(t, keys))
	}
	for _, shape := range slices.Sorted(maps.Keys(written)) {
		if !kept[shape] {
			t.Errorf("no ledger in %s has %q: add one, with -ledger", ledgerFiles, shape)
		}
	}
}
