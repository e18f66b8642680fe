package recover

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// wantWhole expects pools to be whole, and served.
func (l *loss) wantWhole(when string, pools ...*ipamv1alpha1.IPPool) {
	l.t.Helper()
	for _, pool := range pools {
		if whole, frozen := l.whole(pool), l.ledger.Recovery().Frozen(ledger.PoolID(pool.UID)); !whole || frozen {
			l.t.Errorf("%s: pool %s is whole: %t, frozen: %t; want it whole", when, pool.Name, whole, frozen)
		}
	}
}

// wantLost expects pools not to be whole.
func (l *loss) wantLost(when string, pools ...*ipamv1alpha1.IPPool) {
	l.t.Helper()
	for _, pool := range pools {
		if l.whole(pool) {
			l.t.Errorf("%s: pool %s passes for whole", when, pool.Name)
		}
	}
}

// makesWhole makes a pass, which must not fail, and expects pools to be whole then.
func (l *loss) makesWhole(pools ...*ipamv1alpha1.IPPool) {
	l.t.Helper()
	must.Do(l.t, l.pass(l.t.Context()))
	l.wantWhole("after a pass", pools...)
}

// wantUnknown expects the ledger not to have pools.
func (l *loss) wantUnknown(pools ...*ipamv1alpha1.IPPool) {
	l.t.Helper()
	for _, pool := range pools {
		if p, ok := l.ledger.Pools().Get(ledger.PoolID(pool.UID)); ok {
			l.t.Errorf("the ledger has %s of pool %s; want no such pool", p.CIDR, pool.Name)
		}
	}
}

func TestWhole_TakesAPoolThatTheLedgerLacksForLost(t *testing.T) {
	l := newLoss(t)
	if !l.whole(gen.Pool("new")) {
		t.Error("a pool that never had a CIDR was lost")
	}
	if before := l.had(gen.Pool("before"), "10.0.0.0/16", "", 0); l.whole(before) {
		t.Error("a pool that has a CIDR, and is not in the ledger, was not lost")
	}
}

// The IPPool of a retired pool exists until its finalizer is removed, and longer in caches. If such a pool were taken
// for lost, its block would be carved again, for nobody.
func TestWhole_DoesNotTakeARetiredPoolForLost(t *testing.T) {
	for _, test := range []struct {
		name   string
		before bool // retired before Whole looks it up
	}{{"before it is looked for", true}, {"once it was found", false}} {
		t.Run(test.name, func(t *testing.T) {
			l := newLoss(t)
			retiring := l.had(gen.Pool("retiring"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 1)
			id := l.registers(retiring, "10.0.0.0/16")
			other := testbed.Ledger(t, l.etcd.Client(), allocator.Options{})
			retire := sync.OnceFunc(func() {
				if err := other.Pools().Retire(t.Context(), id); err != nil {
					t.Error(err)
				}
			})
			if test.before {
				retire()
			}
			l.lacks = func(ctx context.Context, id ledger.PoolID, changes int64) (bool, error) {
				retire() // another replica does, while the pool is compared with the record
				return l.ledger.Recovery().Behind(ctx, id, changes)
			}
			if !l.whole(retiring) {
				t.Error("a pool that another replica has retired is taken for lost")
			}
		})
	}
}

// A pass could not go on. The next process finds the same pools lost, also those that the former process has registered
// again. Nothing is allocated in between.
func TestPass_LeavesPoolsLostForTheNextProcess(t *testing.T) {
	l := newLoss(t)
	root := l.had(gen.Pool("p"), "10.0.0.0/16", l.ledger.Recovery().LedgerID(), 7)
	child := l.had(gen.Pool("k", gen.ChildOf("p", 24)), "10.0.9.0/24", l.ledger.Recovery().LedgerID(), 1)
	bound := gen.Allocation("a", "p", "10.0.4.0/28")
	l.record.records = []*ipamv1alpha1.IPAllocation{bound}
	world := must.Get(l.survey(t.Context()))(t)
	must.Do(t, world.enter(t.Context())) // and no further: the records cannot be read
	for round := range 3 {
		l.restart()
		for _, pool := range []*ipamv1alpha1.IPPool{root, child} {
			id := ledger.PoolID(pool.UID)
			l.ledger.Recovery().Trust(id)
			if l.whole(pool) || !l.ledger.Recovery().Frozen(id) {
				t.Errorf("round %d: pool %s is whole or not frozen, and its blocks are missing", round, pool.Name)
			}
			holder := ledger.Holder{Claim: "new", Cluster: "platform", Namespace: "default", Name: "new"}
			b, err := l.ledger.Bind(t.Context(), ledger.Request{Pool: id, Holder: holder, Length: 28})
			if _, frozen := errors.AsType[*ledger.FrozenError](err); !frozen {
				t.Errorf("round %d: pool %s answers Bind with %v, %v; want it frozen", round, pool.Name, b.Prefix, err)
			}
		}
	}
	must.Do(t, l.pass(t.Context()))
	l.wantBlocks(map[*ipamv1alpha1.IPAllocation]string{bound: "10.0.4.0/28 bound"})
	l.wantWhole("after the pass", root, child)
}

// A key that cannot be read keeps the pools of its own space frozen. It also keeps a parent frozen if a child cannot be
// carved because of the key. All other pools are made whole. Once the key is readable or deleted, these pools are made
// whole, too.
func TestPass_FreezesOnlyThePoolsOfAnUnreadableKey(t *testing.T) {
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

// notWhole names the pools that are not whole. It fails the test if a whole pool lacks the block of its IPAllocation.
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
	resp := must.Get(l.etcd.Client().Do(l.t.Context(), op))(l.t)
	if put := resp.Put(); put != nil && put.PrevKv != nil {
		return string(put.PrevKv.Value)
	}
	return ""
}

// restored makes a restored ledger, which is older than the published objects: it has the root pools p, q and d1
// without their blocks. It lacks the root pools n and d2, and k, a child of q.
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
		l.registers(pools[i], pools[i].Status.AllocatedCIDR)
	}
	return pools
}
