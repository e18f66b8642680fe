package allocator

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/golden"
	"github.com/kcp-ipam/ipam/allocator/index"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// atOnce calls functions at the same moment, and waits for them.
func atOnce(calls ...func()) {
	start, wg := make(chan struct{}), sync.WaitGroup{}
	for _, call := range calls {
		wg.Go(func() {
			<-start
			call()
		})
	}
	close(start)
	wg.Wait()
}

// Of many callers that ask for the same pool, one carves it, and all get it.
func TestProvision_GivesManyCallersOnePool(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	for round := range 10 {
		wanted := ofNetwork("net", fmt.Sprint(round))
		got, calls := make([]ledger.Pool, 10), make([]func(), 10)
		for i := range calls {
			calls[i] = func() {
				var err error
				got[i], err = l.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 24}, wanted, nil)
				if err != nil {
					t.Errorf("Provision: %v", err)
				}
			}
		}
		atOnce(calls...)
		for _, p := range got {
			if p.CIDR != got[0].CIDR || p.RegisteredAt != got[0].RegisteredAt {
				t.Errorf("round %d: callers got %s and %s, want one pool", round, p.CIDR, got[0].CIDR)
			}
		}
		l.holds(round + 1)
	}
}

// Of many claims that want to hold a pool, one gets it, and the others are told which one.
func TestHold_LetsOneOfManyClaimsHoldThePool(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	for round := range 10 {
		p := l.provision("p", 24, ofNetwork("net", fmt.Sprint(round)))
		errs, calls := make([]error, 6), make([]func(), 6)
		for i := range calls {
			calls[i] = func() {
				_, errs[i] = l.Derived().Hold(t.Context(), p.ID, claim(ledger.ClaimID(fmt.Sprint("c", i))))
			}
		}
		atOnce(calls...)
		now, _, _, err := l.Pools().Read(t.Context(), p.ID)
		must.Do(t, err)
		winners := 0
		for i, err := range errs {
			var held *ledger.HeldError
			switch {
			case err == nil && now.Derived.Holder.Claim == ledger.ClaimID(fmt.Sprint("c", i)):
				winners++
			case !errors.As(err, &held) || held.By != now.Derived.Holder:
				t.Errorf("Hold by c%d: %v, and the pool is held by %s", i, err, now.Derived.Holder.Claim)
			}
		}
		if winners != 1 {
			t.Errorf("%d claims hold the pool, want 1", winners)
		}
	}
	l.sameAsLedger()
}

// A pool is retired while a claim asks for it and binds in it. The claim's block is in a pool that exists.
func TestProvision_LeavesNoBlockInARetiredPool(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	wanted := ofNetwork("net", "a")
	retired := 0
	for round := range 100 {
		p := l.provision("p", 24, wanted)
		name := fmt.Sprint("c", round)
		atOnce(func() {
			for {
				at, err := l.Derived().Provision(t.Context(), ledger.Request{Pool: "p", Length: 24}, wanted, nil)
				if err == nil {
					_, err = l.Bind(t.Context(), request(at.ID, name, 32))
				}
				if errors.Is(err, ledger.ErrUnknownPool) {
					continue // it has gone between the two
				}
				if err != nil {
					t.Errorf("Provision and Bind: %v", err)
				}
				return
			}
		}, func() {
			if err := l.Pools().Retire(t.Context(), p.ID); err == nil {
				retired++
			} else if !errors.Is(err, ledger.ErrPoolInUse) {
				t.Errorf("Retire: %v", err)
			}
		})
		if b, ok, err := l.Lookup(t.Context(), ledger.ClaimID(name)); err != nil || !ok || b.Pool != p.ID {
			t.Fatalf("round %d: Lookup = %v, %t, %v", round, b, ok, err)
		}
		if round%10 == 0 {
			l.sameAsLedger()
		}
		l.free(ledger.ClaimID(name))
		must.Do(t, l.Pools().Retire(t.Context(), p.ID))
	}
	t.Logf("retired first in %d of 100 rounds", retired)
	l.holds(0)
}

// A range is closed at the moment of a bind in the range, or in its address space. If the bind comes first, the closing
// is refused. If the closing comes first, the bind is refused.
func TestBegin_NeverSucceedsTogetherWithABind(t *testing.T) {
	for name, within := range map[string]func(*fixture, ledger.PoolID) ledger.PoolID{
		"the range":        func(_ *fixture, id ledger.PoolID) ledger.PoolID { return id },
		"an address space": func(l *fixture, id ledger.PoolID) ledger.PoolID { return l.space(id, "b").ID },
	} {
		t.Run(name, func(t *testing.T) {
			l := withPool(t, "10.0.0.0/16")
			begun := 0
			for round := range 100 {
				p := l.provision("p", 24, held("a"))
				asked := within(l, p.ID)
				var bound, released error
				claim := fmt.Sprint("c", round)
				atOnce(func() { _, bound = l.Bind(t.Context(), request(asked, claim, 32)) },
					func() {
						_, released = l.Derived().Begin(t.Context(), p.ID, "range", time.Now().Add(time.Minute))
					})
				releasing, refused := errors.AsType[*ledger.ReleasingError](bound)
				switch {
				case bound == nil && errors.Is(released, ledger.ErrPoolInUse):
					l.free(ledger.ClaimID(claim))
					must.Do(t, l.Derived().Drop(t.Context(), p.ID, "range", time.Time{}))
				case released == nil && refused && releasing.Pool == p.ID:
					begun++
				default:
					t.Fatalf("round %d: Bind = %v, Begin = %v", round, bound, released)
				}
				must.Do(t, l.Pools().Retire(t.Context(), p.ID))
			}
			t.Logf("begun first in %d of 100 rounds", begun)
			l.holds(0)
		})
	}
}

// An address space begins at the moment at which its pool is retired, drained, or excludes addresses. Afterwards the
// address space has the state and the exclusions of its pool, or there is no address space.
func TestSpace_FollowsAPoolThatChangesMeanwhile(t *testing.T) {
	l := newLedger(t)
	shut := []netip.Prefix{prefix("10.0.0.0/28")}
	for name, change := range map[string]func(*fixture) error{
		"retired":  func(l *fixture) error { return l.Pools().Retire(t.Context(), "p") },
		"drained":  func(l *fixture) error { return l.Pools().Drain(t.Context(), "p") },
		"excludes": func(l *fixture) error { return l.Pools().Exclude(t.Context(), "p", shut) },
	} {
		for round := range 20 {
			l.pool("p", "10.0.0.0/24")
			before := l.space("p", "before")
			l.bind(request(before.ID, "before", 32))
			var spaceErr, changeErr error
			atOnce(func() { _, spaceErr = l.Bind(t.Context(), request(l.space("p", "new").ID, "new", 32)) },
				func() { changeErr = change(l) })
			if changeErr != nil && !errors.Is(changeErr, ledger.ErrPoolInUse) || spaceErr != nil && !errors.Is(spaceErr, ledger.ErrUnknownPool) && !errors.Is(spaceErr, ledger.ErrPoolDraining) {
				t.Fatalf("%s, round %d: Space = %v, and the change of the pool: %v", name, round, spaceErr, changeErr)
			}
			l.waitIdle(t)
			p, there := l.Pools().Get("p")
			for s := range l.Derived().All() {
				if !there || s.State != p.State || fmt.Sprint(s.Excluded) != fmt.Sprint(p.Excluded) {
					t.Errorf("%s, round %d: the pool is %s without %v (%t), and its address space %s without %v", name, round, p.State, p.Excluded, there, s.State, s.Excluded)
				}
			}
			l.free("before")
			if spaceErr == nil {
				l.free("new")
			}
			must.Do(t, l.Pools().Retire(t.Context(), "p"))
		}
	}
	l.holds(0)
}

// Each of two scopes gets addresses of a pool as from a plain list of its own, and the blocks of one scope do not
// overlap.
func TestSpace_GivesEachScopeTheSameAddresses(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	must.Do(t, l.Pools().Exclude(t.Context(), "p", []netip.Prefix{prefix("10.0.0.0/30")}))
	ids := []ledger.PoolID{l.space("p", "a").ID, l.space("p", "b").ID}
	twins := []*golden.Index{golden.New(prefix("10.0.0.0/24")), golden.New(prefix("10.0.0.0/24"))}
	for _, twin := range twins {
		twin.Exclude(prefix("10.0.0.0/30"))
	}
	for i, length := range []int{32, 28, 32, 27, 30, 26, 32, 31} {
		var got []netip.Prefix
		for j, id := range ids {
			b := l.bind(request(id, fmt.Sprint("c", i, "in", j), length))
			want, ok := twins[j].Find(length, index.FirstFit)
			if !ok || b.Prefix != want {
				t.Errorf("block %d of scope %d is %s, want %s", i, j, b.Prefix, want)
			}
			twins[j].Take(want)
			got = append(got, b.Prefix)
		}
		if got[0] != got[1] {
			t.Errorf("the scopes have %s and %s, want the same", got[0], got[1])
		}
	}
	l.sameAsLedger()
}

// A claim wants to hold an idle pool at the moment at which the pool is retired. It holds a pool that exists, or is
// told that there is none.
func TestHold_NeedsAPoolThatExists(t *testing.T) {
	l := withPool(t, "10.0.0.0/16")
	for round := range 50 {
		p := l.provision("p", 24, ofNetwork("net", "a"))
		var held, retired error
		atOnce(func() { _, held = l.Derived().Hold(t.Context(), p.ID, claim("range")) },
			func() { retired = l.Pools().Retire(t.Context(), p.ID) })
		_, _, there, err := l.Pools().Read(t.Context(), p.ID)
		must.Do(t, err)
		if there != (held == nil) || there != errors.Is(retired, ledger.ErrPoolInUse) || !there && !errors.Is(held, ledger.ErrUnknownPool) {
			t.Fatalf("round %d: Hold = %v, Retire = %v, and the pool is there: %t", round, held, retired, there)
		}
		must.Do(t, l.Derived().Drop(t.Context(), p.ID, "range", time.Time{}))
		must.Do(t, l.Pools().Retire(t.Context(), p.ID))
	}
	l.sameAsLedger()
}

// No claim may hold a range that drains: no further block is bound in the range, and it is retired when its last block
// is gone.
func TestHold_RefusesARangeThatDrains(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	p := l.provision("p", 28, ofNetwork("net", "a"))
	l.bind(request(p.ID, "inside", 32))
	must.Do(t, l.Pools().edit(t.Context(), edit{pool: p, change: drain}))
	failsAs[*ledger.ReleasingError](l.Derived().Hold(t.Context(), p.ID, claim("next")))(t)
}
