package allocator

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A pool that has only cooling blocks may be retired, and its blocks are freed with it.
func TestCooldown_EndsWithItsPool(t *testing.T) {
	i := newIcebox(t)
	for n := range 200 {
		i.bind(request("p", fmt.Sprint(n), 32))
	}
	for n := range 200 {
		i.release(ledger.ClaimID(fmt.Sprint(n)))
	}
	if c, _ := i.Pools().Capacity("p"); c.Blocks != 0 {
		t.Errorf("%d blocks are held, want none", c.Blocks)
	}
	must.Do(t, i.Pools().Retire(t.Context(), "p"))
	i.holds(0)
}

func TestCooldown_GoesOnInAPoolInUse(t *testing.T) {
	i := newIcebox(t)
	i.bind(request("p", "a", 28))
	i.bind(request("p", "b", 28))
	i.release("a")
	must.Be(t, i.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	if p, _ := i.Pools().Get("p"); p.State != ledger.PoolOpen || i.engine.Spaces.CountCooling() != 1 {
		t.Errorf("the pool is %s, and %d blocks cool; want it as it was", p.State, i.engine.Spaces.CountCooling())
	}
	must.Do(t, i.Pools().Drain(t.Context(), "p"))
	i.release("b")
	for known := true; known && t.Context().Err() == nil; {
		_, known = i.Pools().Get("p")
	}
	i.holds(0)
}

// The block of a retired child cools in the parent for the longer of two times: the parent's cooldown, and the rest of
// the cooldowns inside the child. If addresses cooled inside, the child gets another block when it is carved again.
func TestCooldown_LastsForTheLongerTimeOfParentAndChild(t *testing.T) {
	for name, tt := range map[string]struct{ child, parent, want time.Duration }{
		"the parent's is longer": {time.Minute, time.Hour, time.Hour},
		"the child's is longer":  {time.Hour, time.Minute, time.Hour},
		"the parent has none":    {time.Hour, 0, time.Hour},
		"the child has none":     {0, time.Hour, time.Hour},
		"neither has one":        {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			must.Get(i.carve("p", "child", 25))(t)
			i.bind(request("child", "a", 28))
			i.cooldown = tt.child
			i.release("a")
			i.cooldown = tt.parent
			must.Do(t, i.Pools().Retire(t.Context(), "child"))
			i.sameAsLedger()
			if tt.want == 0 {
				i.wantFigures("0", time.Time{})
				return
			}
			i.wantFigures("128", i.clock.now().Add(tt.want))
			want := "10.0.0.0/25" // its former block
			if tt.child > 0 {
				want = "10.0.0.128/25" // its former block has addresses that cool for the claim that had them
			}
			child, err := i.carve("p", "child", 25)
			if err != nil || child.CIDR != prefix(want) {
				t.Errorf("Carve of the same child = %v, %v, want %s", child, err, want)
			}
			i.sameAsLedger()
		})
	}
}

// A workspace may share its slice, so that addresses of other workspaces may cool in it. When the slice is carved
// again, it gets another block.
func TestCooldown_MovesASliceThatIsCarvedAgain(t *testing.T) {
	i := newIcebox(t)
	carve := func() ledger.Pool {
		req := request("p", "slice", 25)
		req.Holder.Namespace, req.Slice = "", true
		return must.Get(i.Pools().Carve(t.Context(), req, ledger.Pool{ID: "slice", Cluster: "tenant", Name: "slice"}))(t)
	}
	carve()
	i.bind(request("slice", "a", 28))
	i.cooldown = time.Hour
	i.release("a")
	must.Do(t, i.Pools().Retire(t.Context(), "slice"))
	i.wantFigures("128", i.clock.now().Add(time.Hour))
	if again := carve(); again.CIDR != prefix("10.0.0.128/25") {
		t.Errorf("the slice that is carved again has %s, want 10.0.0.128/25: addresses of its former block cool", again.CIDR)
	}
	i.sameAsLedger()
}

// When a published record is adopted, the blocks that cool at its prefix are freed.
func TestCooldown_EndsIfARecordOfItsPrefixIsAdopted(t *testing.T) {
	for name, adopted := range map[string]ledger.Request{
		"of the very block":    exactly(request("p", "b", 0), "10.0.0.0/28"),
		"of a part":            exactly(request("p", "b", 0), "10.0.0.4/32"),
		"of more":              exactly(request("p", "b", 0), "10.0.0.0/26"),
		"of the former claim":  exactly(request("p", "a", 0), "10.0.0.0/28"),
		"of it, and elsewhere": exactly(request("p", "a", 0), "10.0.0.32/28"),
	} {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			i.bind(request("p", "a", 28))
			i.release("a")
			b, err := i.Recovery().Adopt(t.Context(), adopted, ledger.Bound)
			if err != nil || b.State != ledger.Bound || b.Prefix != adopted.Exact {
				t.Errorf("Adopt = %+v, %v, want %s", b, err, adopted.Exact)
			}
			i.sameAsLedger()
		})
	}
	i := newIcebox(t)
	i.bind(request("p", "a", 28))
	i.release("a")
	pool := ledger.Pool{ID: "child", Cluster: "tenant", Name: "child"}
	child := must.Get(i.Recovery().Readopt(t.Context(), exactly(request("p", "child", 0), "10.0.0.0/25"), pool))(t)
	if child.CIDR != prefix("10.0.0.0/25") {
		t.Errorf("Readopt = %v, want 10.0.0.0/25", child)
	}
	i.sameAsLedger()
}

// A block cools in every pool of its address domain that has its addresses.
func TestCooldown_CountsInEveryPoolOfADomain(t *testing.T) {
	i := newIcebox(t)
	i.registerIn("x", "10.1.0.0/24")
	i.registerIn("y", "10.1.0.0/25")
	i.bind(request("x", "a", 28))
	i.release("a")
	for _, id := range []ledger.PoolID{"x", "y"} {
		if c, _ := i.Pools().Capacity(id); c.Cooling.Int64() != 16 || c.Blocks != 0 {
			t.Errorf("of pool %s %s addresses cool, and %d blocks are held; want 16 and none", id, c.Cooling, c.Blocks)
		}
	}
	i.sameAsLedger()
	must.Do(t, i.Pools().Retire(t.Context(), "y"))
	if c, _ := i.Pools().Capacity("x"); c.Cooling.Int64() != 16 {
		t.Errorf("of x %s addresses cool", c.Cooling)
	}
	i.pass(time.Minute)
	i.waitWarm(i.Allocator)
	i.sameAsLedger()
}

// If the answer to a transaction is lost, the writer finds out whether the block began to cool, was given back, or was
// freed.
func TestCooldown_IsCertainAfterALostAnswer(t *testing.T) {
	for name, arm := range losses {
		t.Run(name, func(t *testing.T) {
			i := newIcebox(t)
			lose := func() {
				i.waitIdle(t)
				i.swap(func(h *engine.Hooks) { arm(h, once(errLost)) })
			}
			i.bind(request("p", "a", 28))
			lose()
			i.release("a")
			if n := i.engine.Spaces.CountCooling(); n != 1 {
				t.Errorf("%d blocks cool, want one", n)
			}
			lose()
			i.gets(named("new", "a", 28), "10.0.0.0/28")
			i.release("new")
			lose()
			i.pass(time.Minute)
			i.waitWarm(i.Allocator)
			i.holds(0)
		})
	}
}

// If a derived pool is retired and made again, the addresses that cooled in it are given to no other claim meanwhile.
func TestProvision_KeepsTheCooldownsInside(t *testing.T) {
	i := newIcebox(t)
	wanted := ofNetwork("net", "a")
	net := i.provision("p", 28, wanted)
	i.cooldown = time.Hour
	former := i.bind(request(net.ID, "former", 32))
	i.free("former")
	i.cooldown = 0
	must.Do(t, i.Pools().Retire(t.Context(), net.ID))
	again := i.provision("p", 28, wanted)
	i.sameAsLedger()
	if other := i.bind(request(again.ID, "other", 32)); other.Prefix == former.Prefix {
		t.Errorf("%s is given to another claim within its cooldown, in %s made again at %s", other.Prefix, net.CIDR, again.CIDR)
	}
}

// A pool with an address space in use is not retired. The addresses that cool in its other address spaces are given to
// no claim.
func TestRetire_KeepsTheCooldownsBesideAnAddressSpaceInUse(t *testing.T) {
	i := newIcebox(t)
	i.cooldown = time.Hour
	i.bind(request(i.space("p", "used").ID, "used", 32))
	former := map[string]ledger.Block{}
	for n := range 4 {
		name := "vrf-" + strconv.Itoa(n)
		former[name] = i.bind(request(i.space("p", name).ID, "of-"+name, 32))
		i.free(former[name].Holder.Claim)
	}
	must.Be(t, i.Pools().Retire(t.Context(), "p"), ledger.ErrPoolInUse)
	for name, b := range former {
		if next := i.bind(request(i.space("p", name).ID, "next-"+name, 32)); next.Prefix == b.Prefix {
			t.Errorf("%s is given to another claim in %s within its cooldown", next.Prefix, name)
		}
	}
	i.sameAsLedger()
}

// A range is closed, and opened again because the DELETE of its claim has failed. The addresses that cool in its
// address spaces are given to no claim, and no block is bound in these while the range is closed.
func TestReopen_KeepsTheCooldownsOfAddressSpaces(t *testing.T) {
	for name, open := range map[string]func(Derived, ledger.PoolID) error{
		"reopened": func(d Derived, id ledger.PoolID) error { return d.Reopen(t.Context(), id, closedUntilOf(d.a, id)) },
		"dropped":  func(d Derived, id ledger.PoolID) error { return d.Drop(t.Context(), id, "range", time.Time{}) },
	} {
		i := newIcebox(t)
		wanted := held("a")
		net := i.provision("p", 28, wanted)
		i.cooldown = time.Hour
		former := i.bind(request(i.space(net.ID, "b").ID, "former", 32))
		i.free("former")
		must.Get(i.Derived().Begin(t.Context(), net.ID, "range", i.clock.now().Add(time.Minute)))(t)
		failsAs[*ledger.ReleasingError](i.Bind(t.Context(), request(i.space(net.ID, "b").ID, "early", 32)))(t)
		must.Do(t, open(i.Derived(), net.ID))
		if next := i.bind(request(i.space(net.ID, "b").ID, "next", 32)); next.Prefix == former.Prefix {
			t.Errorf("%s: %s is given to another claim within its cooldown", name, next.Prefix)
		}
		i.sameAsLedger()
	}
}

// A claim comes to an address space while its pool is being retired, and the cooldowns there end. The pool stays for
// the claim, or refuses it. No address that cooled is given out. The same is true of a range that a late caller opens
// again meanwhile.
func TestRetire_KeepsTheCooldownsBesideAClaimThatComes(t *testing.T) {
	for _, ranged := range []bool{false, true} {
		i := newIcebox(t)
		of := ledger.PoolID("p")
		if ranged {
			of = i.provision("p", 28, held("a")).ID
		}
		i.cooldown = time.Hour
		s := i.space(of, "b")
		former := i.bind(request(s.ID, "former", 32))
		i.free("former")
		if ranged {
			must.Get(i.Derived().Begin(t.Context(), of, "range", i.clock.now().Add(time.Minute)))(t)
		}
		var others sync.WaitGroup
		comes := func() {
			if ranged {
				_ = i.Derived().Reopen(t.Context(), of, closedUntilOf(i.Allocator, of)) // it may have gone
			}
			if next, err := i.Bind(t.Context(), request(s.ID, "next", 32)); err == nil && next.Prefix == former.Prefix {
				t.Errorf("%s is given to another claim within its cooldown", next.Prefix)
			}
		}
		begin := sync.OnceFunc(func() { others.Go(comes) })
		i.swap(func(h *engine.Hooks) {
			h.BeforeCommit = func(id ledger.SpaceID) error {
				if id == s.Space {
					begin()
				}
				return nil
			}
		})
		if err := i.Pools().Retire(t.Context(), of); err != nil && !ranged { // its claim holds the range again
			t.Error(err)
		}
		others.Wait()
		i.sameAsLedger()
		if !ranged { // else its own block cools
			i.holds(0)
		}
	}
}

// While addresses cool in a pool, the pool gets no address space: there the same addresses would be free at once.
func TestSpace_WaitsForTheCooldownsOfItsPool(t *testing.T) {
	i := newIcebox(t)
	former := i.bind(request("p", "former", 32))
	i.free("former")
	if next, err := i.Bind(t.Context(), request(i.space("p", "a").ID, "next", 32)); !errors.Is(err, ledger.ErrMixed) {
		t.Errorf("Bind in an address space = %s, %v while %s cools; want ErrMixed", next.Prefix, err, former.Prefix)
	}
	i.pass(time.Minute)
	i.waitWarm(i.Allocator)
	i.bind(request(i.space("p", "a").ID, "next", 32))
}
