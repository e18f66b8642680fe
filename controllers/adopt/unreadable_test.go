package adopt

import (
	"net/netip"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A key that cannot be read keeps the pools of its own space frozen, and a parent whose
// child it keeps from being carved. All others are made whole. When the key can be read
// again, or is gone, so are these.
func TestPass_AnUnreadableKey(t *testing.T) {
	for key, keeps := range map[string]string{
		"pools/uid-of-p":                       "p",
		"spaces/uid-of-p/head":                 "p",
		"spaces/uid-of-p/blocks/nonsense":      "p",
		"claims/uid-of-in-p":                   "p",
		"pools/uid-of-d1":                      "d1 d2",
		"spaces/platform:d/head":               "d1 d2",
		"claims/uid-of-in-d2":                  "d1 d2",
		"pools/uid-of-k":                       "q k",
		"claims/uid-of-k":                      "q k",
		"claims/uid-of-in-k":                   "k",
		"spaces/uid-of-nobody/blocks/nonsense": "",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			l := newLoss(t)
			pools := l.restored()
			before := l.put(key, `{"v":9,"somebody":"else"}`)
			l.restart()
			err := l.pass(t.Context())
			if got := l.notWhole(pools); got != keeps {
				t.Errorf("pools that are not whole: %q; want %q. The pass: %v", got, keeps, err)
			}
			if (err == nil) != (keeps == "") {
				t.Errorf("pass = %v; want it to name the pools %q", err, keeps)
			}

			l.put(key, before)
			l.restart()
			if err := l.pass(t.Context()); err != nil {
				t.Errorf("pass after the key was mended = %v; want nil", err)
			}
			if got := l.notWhole(pools); got != "" {
				t.Errorf("pools that are not whole after the key was mended: %q; want none", got)
			}
		})
	}
}

// notWhole names the pools that are not whole. It fails the test if one is that lacks the
// block of its record.
func (l *loss) notWhole(pools []*ipamv1alpha1.IPPool) string {
	l.t.Helper()
	var names []string
	for _, pool := range pools {
		whole, err := l.Whole(l.t.Context(), ledger.PoolID(pool.UID), pool.Status)
		if !whole {
			names = append(names, pool.Name)
			continue
		}
		l.ledger.Recovery().Trust(ledger.PoolID(pool.UID)) // as the pool controller does
		frozen := l.ledger.Recovery().Frozen(ledger.PoolID(pool.UID))
		if _, has, failed := l.ledger.Lookup(l.t.Context(), ledger.ClaimID("uid-of-in-"+pool.Name)); frozen || !has {
			l.t.Errorf("Whole(%s) = true, %v, frozen: %t, the published block is in the ledger: %t, %v", pool.Name, err, frozen, has, failed)
		}
	}
	return strings.Join(names, " ")
}

// put puts a key below the ledger's prefix, or deletes it if there is no value, and
// returns the value that was there.
func (l *loss) put(key, value string) (before string) {
	l.t.Helper()
	key = "/ipam/v1/" + key
	op := clientv3.OpPut(key, value, clientv3.WithPrevKV())
	if value == "" {
		op = clientv3.OpDelete(key, clientv3.WithPrevKV())
	}
	resp, err := l.etcd.Client().Do(l.t.Context(), op)
	if err != nil {
		l.t.Fatal(err)
	}
	if put := resp.Put(); put != nil && put.PrevKv != nil {
		return string(put.PrevKv.Value)
	}
	return ""
}

// restored has a ledger that is older than what was published: it has the root pools p, q
// and d1, without their blocks, and lacks the root pools n and d2, and k, a child of q.
func (l *loss) restored() []*ipamv1alpha1.IPPool {
	l.t.Helper()
	pools := []*ipamv1alpha1.IPPool{
		l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 9),
		l.had(gen.Pool("q"), "10.1.0.0/16", l.ledger.Recovery().LedgerID(), 9),
		l.had(gen.Pool("n"), "10.2.0.0/16", l.ledger.Recovery().LedgerID(), 9),
		l.had(gen.Pool("k", gen.ChildOf("q", 24)), "10.1.9.0/24", l.ledger.Recovery().LedgerID(), 9),
		l.had(gen.Pool("d1", gen.Domain("d")), "10.3.0.0/16", l.ledger.Recovery().LedgerID(), 9),
		l.had(gen.Pool("d2", gen.Domain("d")), "10.3.0.0/16", l.ledger.Recovery().LedgerID(), 9),
	}
	for i, pool := range pools {
		pool.CreationTimestamp.Time = pool.CreationTimestamp.AddDate(0, 0, i)
		at := netip.MustParsePrefix(pool.Status.AllocatedCIDR).Addr().As4()
		at[3] = byte(16 * i) // d1 and d2 have the same CIDR
		block := netip.PrefixFrom(netip.AddrFrom4(at), 28)
		l.record.records = append(l.record.records, gen.Allocation("in-"+pool.Name, pool.Name, block.String()))
	}
	for _, i := range []int{0, 1, 4} {
		if _, err := l.ledger.Pools().Register(l.t.Context(), ledger.Pool{
			ID: ledger.PoolID(pools[i].UID), Cluster: "platform", Name: pools[i].Name,
			CIDR: netip.MustParsePrefix(pools[i].Status.AllocatedCIDR), Space: catalog.Space(pools[i], "platform"),
		}); err != nil {
			l.t.Fatal(err)
		}
	}
	return pools
}
