package allocator

import (
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// limited sets the limits of a request, in addresses; 0 is no limit.
func limited(ofPool, byClass int64, req ledger.Request) ledger.Request {
	if ofPool > 0 {
		req.Limits.Pool = big.NewInt(ofPool)
	}
	if byClass > 0 {
		req.Class, req.Limits.Class = "c", big.NewInt(byClass)
	}
	return req
}

// of returns the request as one from another workspace.
func of(c ledger.ClusterName, req ledger.Request) ledger.Request {
	req.Holder.Cluster = c
	return req
}

// wantOver checks that a request is refused for its quota, and with these figures.
func wantOver(t *testing.T, err error, pool ledger.PoolID, class, figures string) {
	t.Helper()
	over, ok := errors.AsType[*ledger.QuotaError](err)
	if !ok {
		t.Errorf("got %v, want a quota to be exceeded", err)
		return
	}
	if got := fmt.Sprint(over.Limit, over.Held, over.Wanted); over.Pool != pool || over.Class != class || got != figures {
		t.Errorf("pool %q, class %q: limit, held, wanted: %s; want %q, %q: %s", over.Pool, over.Class, got, pool, class, figures)
	}
}

func (r *room) over(req ledger.Request, pool ledger.PoolID, class, figures string) {
	r.t.Helper()
	_, err := r.Bind(r.t.Context(), req)
	wantOver(r.t, err, pool, class, figures)
}

// A limit of a pool counts the bound and retained blocks that a workspace has there, also those bound without a limit.
// Blocks of another pool or workspace do not count. A lowered limit takes nothing away.
func TestQuota_LimitsAWorkspaceInAPool(t *testing.T) {
	r := newRoom(t)
	r.pool("q", "10.1.0.0/24")
	r.bind(request("p", "before the limit", 27))
	r.bind(limited(64, 0, request("p", "a", 28)))
	r.over(limited(64, 0, request("p", "b", 27)), "p", "", "64 48 32")
	r.bind(limited(64, 0, request("p", "b", 28)))
	r.over(limited(64, 0, request("p", "c", 32)), "p", "", "64 64 1")
	r.bind(limited(64, 0, request("q", "c", 26)))
	r.bind(of("other", limited(64, 0, request("p", "d", 26))))
	if b := r.bind(limited(1, 0, request("p", "a", 28))); b.Holder.Claim != "a" {
		t.Error("a holder does not get its block again, because of the limit:", b)
	}
	if _, ok, err := r.Retained().Retain(t.Context(), "a", time.Time{}); !ok || err != nil {
		t.Fatalf("Retain: %v", err)
	}
	r.over(limited(64, 0, request("p", "e", 32)), "p", "", "64 64 1")
	r.release("a")
	r.bind(limited(64, 0, request("p", "e", 28)))
	r.over(limited(32, 0, request("p", "f", 32)), "p", "", "32 64 1") // lowered: nothing is taken away
	r.bind(request("p", "unlimited", 26))
	r.sameAsLedger()
}

// A limit counts the calls of one group together: if it has addresses for one of two calls, one of them gets a block.
func TestQuota_RefusesOneOfTwoCallsOfAGroup(t *testing.T) {
	for name, limit := range map[string]func(ledger.Request) ledger.Request{
		"of a pool":  func(r ledger.Request) ledger.Request { return limited(1, 0, r) },
		"of a class": func(r ledger.Request) ledger.Request { return limited(0, 1, r) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			results := make([]error, 2)
			ask := func(n int) func() {
				return func() { _, results[n] = r.Bind(t.Context(), limit(request("p", fmt.Sprint("c", n), 32))) }
			}
			r.grouped(func() { r.bind(of("other", request("p", "ahead", 32))) }, ask(0), ask(1))
			over := 0
			for _, err := range results {
				if _, is := errors.AsType[*ledger.QuotaError](err); is {
					over++
				}
			}
			if over != 1 {
				t.Errorf("the calls end with %v; want that the limit refuses one", results)
			}
			r.holds(2)
		})
	}
}

// The limit of a class counts the blocks in all pools, also of the other family, and blocks that were bound before
// there was a limit.
func TestQuota_CountsAClassInAllPools(t *testing.T) {
	r := newRoom(t)
	r.pool("q", "10.1.0.0/24")
	r.pool("six", "2001:db8::/32")
	for pool, claim := range map[ledger.PoolID]string{"p": "a", "q": "b"} {
		req := request(pool, claim, 28)
		req.Class = "c"
		r.bind(req)
	}
	r.over(limited(0, 32, request("p", "x", 32)), "", "c", "32 32 1")
	r.bind(limited(0, 48, request("q", "x", 28)))
	r.over(limited(0, 48, request("p", "y", 32)), "", "c", "48 48 1")
	r.bind(of("other", limited(0, 48, request("p", "z", 27))))
	r.release("a")
	r.bind(limited(0, 48, request("p", "y", 28)))

	wide := request("six", "wide", 48)
	wide.Class, wide.Limits.Class = "six", new(big.Int).Lsh(big.NewInt(3), 79)
	r.bind(wide)
	wide.Holder.Claim = "wide2"
	r.over(wide, "", "six", "1813388729421943762059264 1208925819614629174706176 1208925819614629174706176")
	fresh := r.open()
	if _, err := fresh.Bind(t.Context(), wide); err == nil {
		t.Error("a restart has forgotten what is held")
	}
	r.sameAsLedger()
}

// A child pool counts for the workspace that has carved it. A slice counts for no workspace.
func TestQuota_CountsChildPoolsButNoSlices(t *testing.T) {
	r := newRoom(t)
	carve := func(id string, slice bool) error {
		req := limited(64, 0, request("p", id, 26))
		req.Slice = slice
		if slice {
			req.Limits = ledger.Limits{}
		}
		_, err := r.Pools().Carve(t.Context(), req, ledger.Pool{ID: ledger.PoolID(id), Cluster: "tenant", Name: id})
		return err
	}
	for _, slice := range []string{"s1", "s2"} {
		must.Do(t, carve(slice, true))
	}
	must.Do(t, carve("child", false))
	wantOver(t, carve("child2", false), "p", "", "64 64 64")
	r.Waits().Add(limited(64, 0, request("p", "child2", 26)))
	if _, ok, err := r.Retained().Retain(t.Context(), "s1", time.Time{}); !ok || err != nil {
		t.Fatalf("Retain: %v", err)
	}
	r.over(limited(64, 0, request("p", "claim", 32)), "p", "", "64 64 1")
	must.Do(t, r.Pools().Retire(t.Context(), "child"))
	r.wantWoken("child2")
	r.sameAsLedger()
}

// No limit refuses an adoption. The adopted block counts.
func TestQuota_CountsAnAdoptionAndNeverRefusesIt(t *testing.T) {
	r := newRoom(t)
	for _, c := range []struct{ Claim, prefix string }{{"a", "10.0.0.0/26"}, {"b", "10.0.0.64/26"}} {
		must.Get(r.Recovery().Adopt(t.Context(), limited(64, 64, exactly(request("p", c.Claim, 0), c.prefix)), ledger.Bound))(t)
	}
	r.over(limited(128, 0, request("p", "x", 32)), "p", "", "128 128 1")
	r.over(limited(0, 128, request("p", "x", 32)), "", "c", "128 128 1")
	r.release("a")
	r.bind(limited(128, 128, request("p", "x", 26)))
	r.sameAsLedger()
}

// Ten calls share a transaction, and the limit counts them together: three of them get a block.
func TestQuota_CountsTheCallsOfOneTransaction(t *testing.T) {
	for _, limits := range [][2]int64{{64, 0}, {0, 64}} {
		l := withPool(t, "10.0.0.0/16")
		first := limited(limits[0], limits[1], request("p", "first", 28))
		first.Limits = ledger.Limits{}
		var bound atomic.Int32
		calls := make([]func(), 10)
		for i := range calls {
			calls[i] = func() {
				_, err := l.Bind(t.Context(), limited(limits[0], limits[1], request("p", fmt.Sprint("c", i), 28)))
				if _, over := errors.AsType[*ledger.QuotaError](err); err == nil {
					bound.Add(1)
				} else if !over {
					t.Errorf("Bind: %v, want a QuotaError", err)
				}
			}
		}
		l.grouped(func() { l.bind(first) }, calls...)
		if n := bound.Load(); n != 3 {
			t.Errorf("limits %v: %d blocks of 16 beside the first, want 3", limits, n)
		}
	}
}

func TestQuota_WakesOnlyForAReleaseOfTheWorkspace(t *testing.T) {
	for _, limits := range [][2]int64{{64, 0}, {0, 64}} {
		r := newRoom(t)
		r.pool("q", "10.1.0.0/24")
		r.bind(limited(limits[0], limits[1], request("p", "mine", 27)))
		r.bind(limited(limits[0], limits[1], request("p", "mine too", 27)))
		r.bind(of("other", request("p", "theirs", 27)))
		r.Waits().Add(since(3, limited(limits[0], limits[1], request("p", "young", 28))))
		r.Waits().Add(since(1, limited(limits[0], limits[1], request("p", "large", 26))))
		r.Waits().Add(since(2, limited(limits[0], limits[1], request("p", "old", 28))))
		r.Waits().Add(since(4, limited(limits[0], limits[1], request("p", "too young", 28))))
		r.wantWoken()
		r.release("theirs")
		r.wantWoken()
		r.bind(of("other", request("p", "newcomer", 25))) // robs nobody who could have had it
		r.release("mine")
		r.wantWoken("old", "young") // as many as the limit lets have it
		r.bind(limited(limits[0], limits[1], request("p", "old", 28)))
		r.bind(limited(limits[0], limits[1], request("p", "young", 28)))
		r.over(limited(limits[0], limits[1], request("p", "too young", 28)), or(ledger.PoolID("p"), limits[0]), or("c", limits[1]), "64 64 16")
		if n := waiting(r.Allocator, "p"); n != 1 {
			t.Error(n, "wait, want the large one")
		}
		r.release("old", "young", "mine too")
		r.wantWoken("large")
		r.sameAsLedger()
	}
}

// or returns the name if there is a limit.
func or[T ~string](name T, limit int64) T {
	if limit == 0 {
		return ""
	}
	return name
}

// When no claim of a workspace waits any more, memory has nothing of their waits, even if no block was ever released.
func TestQuota_ForgetsClaimsThatWaitNoMore(t *testing.T) {
	for _, limits := range [][2]int64{{16, 0}, {0, 16}} {
		r := newRoom(t)
		r.pool("q", "10.1.0.0/24")
		r.bind(of("other", request("p", "full", 24)))
		r.Waits().Add(limited(limits[0], limits[1], request("p", "for room", 28)))
		r.Waits().Add(limited(limits[0], limits[1], request("p", "withdrawn", 27)))
		r.Waits().Add(limited(limits[0], limits[1], request("q", "for a pool that goes", 27)))
		r.Waits().Withdraw("for room")
		r.Waits().Withdraw("withdrawn")
		must.Do(t, r.Pools().Retire(t.Context(), "q"))
		if at := r.table.Waits.Pools("tenant"); len(at) > 0 {
			t.Errorf("limits %v: the workspace waits at %v, and none of its claims does", limits, at)
		}
	}
}

// A claim that the limit of a class stops is woken when its workspace releases a block in another pool.
func TestQuota_WakesForAReleaseInAnotherPool(t *testing.T) {
	r := newRoom(t)
	r.pool("q", "10.1.0.0/24")
	r.bind(limited(0, 64, request("q", "held", 26)))
	r.Waits().Add(limited(0, 64, request("p", "w", 26)))
	r.wantWoken()
	must.Do(t, r.Release(t.Context(), "held"))
	r.wantWoken("w")
	r.bind(limited(0, 64, request("p", "w", 26)))
	r.sameAsLedger()
}
