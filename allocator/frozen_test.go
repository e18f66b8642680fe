package allocator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

func frozenLedger(o *Options) { o.Frozen = true }

// wantFrozen fails the test unless a claim is refused because the pool is frozen.
func (l *fixture) wantFrozen(pool ledger.PoolID, isLost bool) {
	l.t.Helper()
	var frozen *ledger.FrozenError
	if b, err := l.Bind(l.t.Context(), request(pool, "new", 26)); !errors.As(err, &frozen) || frozen.Lost != isLost {
		l.t.Errorf("Bind = %v, %v; want it frozen, lost: %t", b, err, isLost)
	}
}

// freeze freezes the pool "p".
func (l *fixture) freeze(a *Allocator) {
	l.t.Helper()
	must.Do(l.t, a.Recovery().Freeze(l.t.Context(), "p", time.Time{}))
}

// resume ends the freeze of the pool "p".
func (l *fixture) resume(a *Allocator, changes int64) {
	l.t.Helper()
	must.Do(l.t, a.Recovery().Resume(l.t.Context(), "p", changes))
}

// A frozen pool allocates nothing new, and wakes no claim. Existing blocks are found and released, and blocks are
// adopted. Only Resume ends a freeze that is in the ledger.
func TestFrozen_AllocatesNothing(t *testing.T) {
	woken := make(chan ledger.ClaimID, 1)
	l := withPool(t, "10.0.0.0/24")
	held := l.bind(request("p", "held", 26))
	l.Allocator = l.open(frozenLedger, func(o *Options) { o.Wake = func(h ledger.Holder) { woken <- h.Claim } })

	l.wantFrozen("p", false)
	if again := l.bind(request("p", "held", 26)); again != held {
		t.Errorf("the block of a bound claim became %v", again)
	}
	l.freeze(l.Allocator)
	l.wantFrozen("p", true)
	l.Recovery().Trust("p") // says nothing of what the ledger has lost
	l.wantFrozen("p", true)
	l.adopt("adopted", "10.0.0.128/26")
	l.free("held")
	l.Waits().Add(request("p", "waits", 26))
	if len(woken) > 0 {
		t.Error("a claim was woken for room of a frozen pool")
	}
	l.resume(l.Allocator, 0)
	if got := <-woken; got != "waits" {
		t.Errorf("%s was woken", got)
	}
	l.gets(request("p", "waits", 26), "10.0.0.0/26")
	l.sameAsLedger()
}

// One frozen pool keeps its whole address domain frozen.
func TestFrozen_FreezesTheWholeDomain(t *testing.T) {
	l := newLedger(t, frozenLedger)
	l.domain()
	l.Recovery().Trust("small")
	l.wantFrozen("small", false)
	l.wantFrozen("big", false)
	l.Recovery().Trust("big")
	l.bind(request("small", "c", 26))
}

// The freeze of a domain ends when its only frozen pool is retired. Claims that wait at another pool of the domain are
// woken.
func TestFrozen_EndsWhenTheFrozenPoolIsRetired(t *testing.T) {
	woken := make(chan ledger.ClaimID, 1)
	l := newLedger(t, frozenLedger, func(o *Options) { o.Wake = func(h ledger.Holder) { woken <- h.Claim } })
	l.domain()
	l.Recovery().Trust("small")
	l.wantFrozen("small", false)
	l.Waits().Add(request("small", "waits", 26))
	must.Do(t, l.Pools().Retire(t.Context(), "big"))
	l.waitIdle(t)
	select {
	case got := <-woken:
		if got != "waits" {
			t.Errorf("%s was woken, want waits", got)
		}
	default:
		t.Error("the freeze of the domain has ended, and the claim that waits was not woken")
	}
	l.bind(request("small", "waits", 26))
	l.sameAsLedger()
}

// A ledger is behind by the changes that it lacked when it was opened, however many changes are made afterwards. After
// Resume its count goes on from the given number.
func TestBehind_IgnoresLaterChanges(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	l.bind(request("p", "a", 26))
	l.bind(request("p", "b", 26))
	c, _ := l.Pools().Capacity("p")
	restored := l.again(frozenLedger)
	behind := func(id ledger.PoolID, changes int64) bool {
		return must.Get(restored.Recovery().Behind(t.Context(), id, changes))(t)
	}
	if behind("p", c.Changes) || !behind("p", c.Changes+1) || !behind("q", 0) {
		t.Error("the count of changes is not the one of the ledger that was opened")
	}
	must.Do(t, restored.Release(t.Context(), "a"))
	if !behind("p", c.Changes+1) {
		t.Error("what was done since counts for what was lost")
	}
	l.resume(restored, c.Changes+1000)
	if now, _ := l.Pools().Capacity("p"); now.Changes != c.Changes+1000 {
		t.Errorf("the count goes on from %d; want %d", now.Changes, c.Changes+1000)
	}
	l.sameAsLedger()
}

// A lost child pool is carved exactly where it was, and is refused where others have blocks.
func TestReadopt_CarvesALostChildAtItsOldPlace(t *testing.T) {
	l := newLedger(t, frozenLedger)
	l.pool("p", "10.0.0.0/16")
	carve := func(id ledger.PoolID, at string) error {
		r := exactly(request("p", string(id), 0), at)
		r.Since = time.Now()
		_, err := l.Recovery().Readopt(t.Context(), r, ledger.Pool{ID: id, Cluster: "platform", Name: string(id)})
		return err
	}
	must.Do(t, carve("k", "10.0.64.0/24"))
	must.Do(t, carve("k", "10.0.64.0/24"))
	must.Be(t, carve("j", "10.0.64.0/20"), ledger.ErrInUse)
	if p, ok := l.Pools().Get("k"); !ok || p.CIDR != prefix("10.0.64.0/24") || p.Parent != "p" {
		t.Errorf("Pool = %v, %v; want 10.0.64.0/24", p, ok)
	}
	blocks, err := l.Pools().Overlapping(t.Context(), "p", prefix("10.0.64.0/18"))
	if err != nil || len(blocks) != 1 || blocks[0].Holder.Claim != "k" {
		t.Errorf("Overlapping = %v, %v; want the block of k", blocks, err)
	}
	l.sameAsLedger()
}

// A snapshot was restored, and the blocks that it lacks are not adopted yet, because a shard is away. Meanwhile blocks
// are released and adopted, and new processes open the ledger. Each process finds that changes are lost, and allocates
// nothing.
func TestFrozen_SurvivesRestarts(t *testing.T) {
	l := withPool(t, "10.0.0.0/24")
	for _, claim := range []string{"a", "b", "c"} {
		l.bind(request("p", claim, 28))
	}
	c, _ := l.Pools().Capacity("p")
	published := c.Changes + 2 // two more blocks were published since
	l.again(frozenLedger)
	found := l
	behind := func(a *Allocator) bool {
		t.Helper()
		return must.Get(a.Recovery().Behind(t.Context(), "p", published))(t)
	}

	found.free("a") // before anybody has compared
	if !behind(found.Allocator) {
		t.Fatal("Behind() = false in a ledger that lacks two changes; want true")
	}
	l.freeze(found.Allocator)
	for round := range 3 {
		found.adopt(fmt.Sprint("adopted", round), fmt.Sprintf("10.0.0.%d/28", 128+16*round))
		found.free("b")
		found.adopt("b", "10.0.0.16/28")
		for name, a := range map[string]*Allocator{"a new process": l.again(frozenLedger)} {
			if !behind(a) || !a.Recovery().Frozen("p") {
				t.Errorf("round %d: %s finds Behind() = %t, Frozen() = %t; want true and true", round, name, behind(a), a.Recovery().Frozen("p"))
			}
			a.Recovery().Trust("p")
			b, err := a.Bind(t.Context(), request("p", "new", 28))
			if frozen, ok := errors.AsType[*ledger.FrozenError](err); !ok || !frozen.Lost {
				t.Errorf("round %d: %s answers Bind with %v, %v; want it frozen, with changes lost", round, name, b.Prefix, err)
			}
		}
	}

	l.resume(found.Allocator, published+1000)
	for name, a := range map[string]*Allocator{"the process that has resumed it": found.Allocator} {
		a.Recovery().Trust("p")
		if behind(a) || a.Recovery().Frozen("p") {
			t.Errorf("after Resume %s finds Behind() = %t, Frozen() = %t; want false and false", name, behind(a), a.Recovery().Frozen("p"))
		}
	}
	found.bind(request("p", "new", 28))
	l.sameAsLedger()
}

// While a lost pool is away, blocks of a draining pool of its domain are released. The lost pool is registered again as
// frozen, and is frozen after a restart, too, although the head has counted more changes than were published of the
// lost pool.
func TestFrozen_SurvivesARestartWithADrainingPool(t *testing.T) {
	l := newLedger(t)
	l.domain()
	l.bind(request("big", "a", 26))
	l.bind(request("big", "b", 26))
	c, _ := l.Pools().Capacity("big")
	must.Do(t, l.Pools().Retire(t.Context(), "small"))
	must.Do(t, l.Pools().Drain(t.Context(), "big"))
	l.again(frozenLedger)
	found := l
	found.free("a")
	small := member("small", "10.0.0.0/24")
	small.Frozen = true
	must.Get(found.Pools().Register(t.Context(), small))(t)
	l.again(frozenLedger)
	if behind, err := found.Recovery().Behind(t.Context(), "small", c.Changes); err != nil || behind {
		t.Fatalf("Behind(%d) = %t, %v; want the count to be of no help here", c.Changes, behind, err)
	}
	found.Recovery().Trust("small")
	found.wantFrozen("small", true)
}

// If a space has lost changes, its pools are not drained, because the lost changes may have bound blocks in them. A
// pool that is frozen only because it was not compared yet is drained.
func TestDrain_RefusesAPoolWhoseSpaceHasLostChanges(t *testing.T) {
	l := newLedger(t)
	l.registerIn("p", "10.0.0.0/24")
	l.registerIn("beside", "10.0.0.0/24")
	l.pool("other", "10.1.0.0/24")
	l.freeze(l.Allocator)
	l.Allocator = l.open(frozenLedger)
	for _, id := range []ledger.PoolID{"p", "beside"} {
		var frozen *ledger.FrozenError
		if err := l.Pools().Drain(t.Context(), id); !errors.As(err, &frozen) || !frozen.Lost {
			t.Errorf("Drain(%s) = %v; want it refused, as its space has lost changes", id, err)
		}
		if p, ok := l.Pools().Get(id); !ok || p.State != ledger.PoolOpen {
			t.Errorf("Pool(%s) = %+v, %t; want it open", id, p, ok)
		}
	}
	must.Do(t, l.Pools().Drain(t.Context(), "other"))
	l.resume(l.Allocator, 0)
	must.Do(t, l.Pools().Drain(t.Context(), "p"))
	l.waitGone("p")
	l.waitGone("other")
}

// The ledger keeps the origin that the first caller has seen, until an Allocator is opened with another one.
func TestOrigin_StaysUntilItIsReplaced(t *testing.T) {
	l := newLedger(t)
	origin := func(a *Allocator, seen, want string) {
		t.Helper()
		if got, err := a.Recovery().Origin(t.Context(), seen); err != nil || got != want {
			t.Errorf("Origin(%q) = %q, %v; want %q", seen, got, err, want)
		}
	}
	read := Reader{Client: l.etcd.Client()}
	if got, err := read.Origin(t.Context()); err != nil || got != "" {
		t.Errorf("a new ledger has the origin %q, %v; want none", got, err)
	}
	origin(l.Allocator, "first", "first")
	origin(l.Allocator, "second", "first")
	moved := must.Get(Open(t.Context(), l.etcd.Client(), Options{Origin: "second"}))(t)
	defer moved.Close()
	origin(moved, "third", "second")
	origin(l.Allocator, "first", "second")
	if got, err := read.Origin(t.Context()); err != nil || got != "second" {
		t.Errorf("a Reader finds the origin %q, %v; want second", got, err)
	}
}
