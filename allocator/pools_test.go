package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

func root(id ledger.PoolID, cidr string) ledger.Pool {
	return ledger.Pool{ID: id, Cluster: "platform", Name: string(id), CIDR: prefix(cidr)}
}

func TestRegister_KeepsThePoolAsFirstRegistered(t *testing.T) {
	l := newLedger(t)
	p := root("p", "10.0.0.0/24")
	p.Excluded = []netip.Prefix{prefix("10.0.0.128/25"), prefix("10.0.0.0/30"), prefix("10.0.0.0/30")}
	first := must.Get(l.Pools().Register(t.Context(), p))(t)
	if first.Space != "p" || first.State != ledger.PoolOpen || fmt.Sprint(first.Excluded) != "[10.0.0.0/30 10.0.0.128/25]" {
		t.Errorf("Register = %+v; want an open pool in space p, its exclusions merged", first)
	}
	for range 2 {
		again, err := l.Pools().Register(t.Context(), root("p", "10.0.0.0/24"))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("Register = %v, %v; want the pool as it was registered first", again, err)
		}
	}
	b, err := l.Bind(t.Context(), request("p", "c", 30))
	if err != nil || b.Prefix != prefix("10.0.0.4/30") {
		t.Errorf("Bind = %v, %v; want 10.0.0.4/30", b, err)
	}
	l.sameAsLedger()
}

func TestRegister_SaysWhyItRefuses(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	elsewhere := root("p", "10.0.0.0/24")
	elsewhere.Cluster = "tenant"
	space := root("p", "10.0.0.0/24")
	space.Space = "s"
	stolen := root("q", "10.9.0.0/24")
	stolen.Space, stolen.Cluster = "p", "tenant"
	child := root("q", "10.9.0.0/24")
	child.Parent = "p"
	outside := root("q", "10.9.0.0/24")
	outside.Excluded = []netip.Prefix{prefix("10.0.0.0/30")}
	for name, tc := range map[string]struct {
		pool ledger.Pool
		want error
	}{
		"another CIDR":                {root("p", "10.0.0.0/25"), ledger.ErrPoolMismatch},
		"another space":               {space, ledger.ErrPoolMismatch},
		"another cluster":             {elsewhere, ledger.ErrPoolMismatch},
		"the space of another tenant": {stolen, ledger.ErrPoolMismatch},
		"host bits":                   {root("q", "10.9.0.1/24"), ledger.ErrInvalid},
		"no CIDR":                     {ledger.Pool{ID: "q", Cluster: "platform"}, ledger.ErrInvalid},
		"a child":                     {child, ledger.ErrInvalid},
		"an exclusion outside":        {outside, ledger.ErrInvalid},
		"a slash":                     {root("a/b", "10.9.0.0/24"), ledger.ErrInvalid},
	} {
		if _, err := l.Pools().Register(t.Context(), tc.pool); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
	var overlap *ledger.OverlapError
	if _, err := l.Pools().Register(t.Context(), root("q", "10.0.0.0/16")); !errors.As(err, &overlap) || overlap.With.ID != "p" {
		t.Errorf("Register: %v", err)
	}
	tenant := root("q", "10.0.0.0/16")
	tenant.Cluster = "tenant"
	if _, err := l.Pools().Register(t.Context(), tenant); err != nil {
		t.Error("another workspace may use the same addresses:", err)
	}
}

// Of overlapping pools that are registered at once, one is registered, and the others are refused.
func TestRegister_LetsOneOfOverlappingPoolsWin(t *testing.T) {
	l := newLedger(t)
	allocators := []*Allocator{l.Allocator, l.Allocator, l.Allocator}
	for round := range 10 {
		var wg sync.WaitGroup
		errs := make([]error, 9)
		for i := range errs {
			wg.Go(func() {
				id := ledger.PoolID(fmt.Sprintf("p%d-%d", round, i))
				cidr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(round), 0, 0}), 16+i)
				_, errs[i] = allocators[i%3].Pools().Register(t.Context(), ledger.Pool{ID: id, Cluster: "platform", Name: string(id), CIDR: cidr})
			})
		}
		wg.Wait()
		won := 0
		for _, err := range errs {
			var overlap *ledger.OverlapError
			switch {
			case err == nil:
				won++
			case !errors.As(err, &overlap):
				t.Errorf("got %v, want an OverlapError", err)
			}
		}
		if won != 1 {
			t.Errorf("round %d: %d pools were registered at one CIDR", round, won)
		}
	}
	l.sameAsLedger()
}

func TestDomain_PoolsShareTheirBlocks(t *testing.T) {
	l := newLedger(t)
	l.registerIn("big", "10.0.0.0/16")
	l.bind(request("big", "c0", 26))
	must.Get(l.Pools().Register(t.Context(), member("small", "10.0.0.0/24")))(t)
	for i, want := range []string{"10.0.0.64/26", "10.0.0.128/26", "10.0.0.192/26"} {
		b, err := l.Bind(t.Context(), request("small", fmt.Sprint("s", i), 26))
		if err != nil || b.Prefix != prefix(want) {
			t.Errorf("Bind = %v, %v; want %s", b, err, want)
		}
	}
	l.gets(request("big", "c1", 26), "10.0.1.0/26")
	l.sameAsLedger()
	if c, _ := l.Pools().Capacity("small"); c.Blocks != 3 || c.Available.Sign() != 0 {
		t.Error("a pool counts its own blocks, and lacks the room of all:", c)
	}
	for _, claim := range []ledger.ClaimID{"s0", "s1", "s2"} {
		must.Do(t, l.Release(t.Context(), claim))
	}
	must.Do(t, l.Pools().Retire(t.Context(), "small"))
	must.Be(t, l.Pools().Retire(t.Context(), "big"), ledger.ErrPoolInUse)
	l.sameAsLedger()
}

func TestExclude_KeepsBindsOutOfThePrefixes(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/25")}))
	l.gets(request("p", "d", 26), "10.0.0.128/26")
	must.Do(t, l.Release(t.Context(), "c"))
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/26")}))
	b, err := l.Bind(t.Context(), request("p", "e", 26))
	if err != nil || b.Prefix != prefix("10.0.0.64/26") {
		t.Errorf("Bind = %v, %v; want 10.0.0.64/26", b, err)
	}
	must.Be(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.1.0.0/26")}), ledger.ErrInvalid)
	must.Be(t, l.Pools().Exclude(t.Context(), "q", nil), ledger.ErrUnknownPool)
	l.sameAsLedger()
}

// Changed is not called for an edit that changes nothing: its receiver edits the pool, and would do so again and again.
func TestChanged_IsNotCalledWithoutAChange(t *testing.T) {
	var news atomic.Int64
	l := newLedger(t, func(o *Options) {
		o.Changed = func(_ Pools, ids ...ledger.PoolID) {
			if slices.Contains(ids, "p") {
				news.Add(1)
			}
		}
	})
	l.pool("p", "10.0.0.0/24")
	l.bind(request("p", "c", 26))
	edit := func() {
		t.Helper()
		err := l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.128/25")})
		must.Do(t, errors.Join(err, l.Pools().Drain(t.Context(), "p")))
	}
	edit()
	l.pool("elsewhere", "10.1.0.0/24") // the ledger moves on
	before := news.Load()
	edit()
	if after := news.Load(); after != before {
		t.Errorf("pool p was said to have changed, %d times", after-before)
	}
}

// waitGone waits until a pool has left the ledger.
func (l *fixture) waitGone(id ledger.PoolID) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel() // many watches that end at once block the server in this process
	watch := l.etcd.Client().Watch(ctx, l.keys.Pool(id))
	for {
		resp := must.Get(l.etcd.Client().Get(l.t.Context(), l.keys.Pool(id)))(l.t)
		if len(resp.Kvs) == 0 {
			return
		}
		<-watch
	}
}

// Read returns since when the ledger has a pool, and the revision of the pool's last change.
func TestRead_TellsTheTimeAndTheRevision(t *testing.T) {
	l := newLedger(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.FixedZone("", 3600))
	l.swap(func(h *engine.Hooks) { h.Now = func() time.Time { return now } })
	l.pool("p", "10.0.0.0/24")
	must.Get(l.carve("p", "child", 26))(t)
	for _, id := range []ledger.PoolID{"p", "child"} {
		p, revision, ok, err := l.Pools().Read(t.Context(), id)
		if err != nil || !ok || !p.RegisteredAt.Equal(now) || revision == 0 {
			t.Errorf("Read(%s) = %+v, %d, %t, %v; want it since %v, at some revision", id, p, revision, ok, err, now)
		}
		_, before, _, _ := l.Pools().Read(t.Context(), id)
		must.Do(t, l.Pools().Exclude(t.Context(), id, []netip.Prefix{prefix("10.0.0.0/30")}))
		if p, after, _, _ := l.Pools().Read(t.Context(), id); after <= before || !p.RegisteredAt.Equal(now) {
			t.Errorf("after a change Read(%s) = %+v at revision %d; want it since %v, at a revision beyond %d", id, p, after, now, before)
		}
	}
	if p, _, ok, err := l.Pools().Read(t.Context(), "never"); ok || err != nil {
		t.Errorf("Read(never) = %+v, %t, %v", p, ok, err)
	}
}

// A pool may hold a block if it has one, or if a key of its space cannot be read. The blocks of derived pools do not
// count.
func TestMayHold_IsTrueWhileAKeyCannotBeRead(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	p := l.provision("p", 24, ofNetwork("net", "a"))
	want := func(what string, want bool) {
		t.Helper()
		for _, id := range []ledger.PoolID{"p", p.ID} {
			if got := l.Pools().MayHold(id); got != want {
				t.Errorf("%s: MayHold(%s) = %t, want %t", what, id, got, want)
			}
		}
	}
	want("empty", false)
	l.bind(request("p", "root", 32))
	l.bind(request(p.ID, "sub", 32))
	want("in use", true)
	l.free("root")
	l.free("sub")
	want("empty again", false)
	for _, space := range []ledger.SpaceID{"p", p.Space} {
		l.put("spaces/"+string(space)+"/blocks/nonsense", unreadable["newer"])
	}
	l.again()
	want("a key cannot be read", true)
}
