package space

import (
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// tight makes a space with one pool of two addresses. The News has the notifications of the last Unlock.
func tight(t *testing.T) (*Space, *Pool, *News) {
	t.Helper()
	s, told := spaceOf(netip.MustParsePrefix("10.0.0.0/31"))
	return s, s.Pool("p"), told
}

// spaceOf makes a space with one pool. The News has the notifications of the last Unlock.
func spaceOf(cidr netip.Prefix) (*Space, *News) {
	table, told := NewTable(), &News{}
	table.HoldTime, table.Logger, table.Now = time.Hour, slog.Default(), time.Now
	table.After = func(time.Duration, func()) func() bool { return func() bool { return true } }
	s := NewSpace(table, "s")
	s.Unlocking, s.Unlocked = func() {}, func(n News) { *told = n }
	s.putPool(ledger.Pool{ID: "p", CIDR: cidr, State: ledger.PoolOpen})
	return s, told
}

func asks(claim ledger.ClaimID) ledger.Request {
	return ledger.Request{Pool: "p", Length: 32, Holder: ledger.Holder{Claim: claim, Cluster: "w", Name: string(claim)}}
}

func block(claim ledger.ClaimID) store.Record {
	return store.Record{Held: &store.Holding{Pool: "p", Claim: claim, Cluster: "w", Name: string(claim), State: ledger.Bound}}
}

// come brings a new block into the space.
func come(s *Space, prefix string, r store.Record) {
	key := store.Key{Kind: store.BlockKey, Space: "s", Prefix: netip.MustParsePrefix(prefix)}
	s.Apply([]*store.Entry{{Key: key, Put: true, Block: r}})
}

// leave removes blocks from the space, all by one transaction.
func leave(s *Space, blocks ...netip.Prefix) {
	var entries []*store.Entry
	for _, b := range blocks {
		entries = append(entries, &store.Entry{Key: store.Key{Kind: store.BlockKey, Space: "s", Prefix: b}})
	}
	s.Apply(entries)
}

// The prefix of a freed block is held for the oldest waiter alone. If that waiter withdraws, the prefix is held for the
// next waiter.
func TestRoom_IsHeldForTheOldestWaiter(t *testing.T) {
	s, p, told := tight(t)
	const first, second = "10.0.0.0/32", "10.0.0.1/32"
	s.Lock()
	for i, prefix := range []string{first, second} {
		come(s, prefix, block(ledger.ClaimID(fmt.Sprint("holder", i))))
	}
	for i, claim := range []ledger.ClaimID{"old", "young"} {
		req := asks(claim)
		req.Since = time.Unix(int64(i), 0)
		s.Room.Wait(p, req)
	}
	leave(s, netip.MustParsePrefix(second))
	s.Unlock()
	if len(told.Woken) != 1 || told.Woken[0].Claim != "old" {
		t.Fatalf("woken are %v, want the oldest alone", told.Woken)
	}
	s.Lock()
	s.Room.Withdraw(p, "old")
	s.Unlock()
	if len(told.Woken) != 1 || told.Woken[0].Claim != "young" || s.Table.Waiting.Load() != 1 {
		t.Errorf("woken are %v, and %d wait; want the other one alone", told.Woken, s.Table.Waiting.Load())
	}
	s.Lock()
	defer s.Unlock()
	if prefix, ok := p.HeldFor(asks("young")); !ok || prefix.String() != second {
		t.Errorf("HeldFor = %v, %t, want %v", prefix, ok, second)
	}
	come(s, second, block("young"))
	if p.Waiting.Len() != 0 || s.Room.reserved.len() != 0 || p.Index.Blocks() != 2 {
		t.Errorf("%d wait, %d prefixes are held, and %d are taken once the claim is bound; want 0, 0 and 2", p.Waiting.Len(), s.Room.reserved.len(), p.Index.Blocks())
	}
}

// A prefix that is held for a waiter at one pool is taken in a new pool of the space, too.
func TestPutPool_TakesHeldPrefixes(t *testing.T) {
	s, p, _ := tight(t)
	s.Lock()
	defer s.Unlock()
	s.Room.Wait(p, asks("waits"))
	held, ok := p.HeldFor(asks("waits"))
	s.Apply([]*store.Entry{{
		Key: store.Key{Kind: store.PoolKey, Space: "s", Pool: "q"}, Put: true,
		Registered: &ledger.Pool{ID: "q", CIDR: p.CIDR, State: ledger.PoolOpen},
	}})
	if q := s.Pool("q"); !ok || q.Index.Free(held) {
		t.Errorf("the new pool has %v as free, which is held: %t", held, ok)
	}
}

// A waiter that a limit stops is woken when its workspace holds less, and not before.
func TestRoom_WakesAStoppedWaiterWhenLessIsHeld(t *testing.T) {
	s, p, told := tight(t)
	const taken = "10.0.0.0/32"
	s.Lock()
	come(s, taken, block("holder"))
	req := asks("over")
	req.Limits.Pool = big.NewInt(1)
	s.Room.Wait(p, req)
	s.Unlock()
	wantWoken(t, told)
	s.Lock()
	leave(s, netip.MustParsePrefix(taken))
	s.Unlock()
	wantWoken(t, told, "over")
}

// A waiter that the limit of a class stops is woken, too, when its workspace holds less in another space.
func TestRoom_WakesAStoppedWaiterInAnotherSpace(t *testing.T) {
	s, p, told := tight(t)
	req := asks("over")
	s.Lock()
	req.Class, req.Limits.Class = "c", big.NewInt(1)
	s.Table.Quotas.post(ClassAccount(req), big.NewInt(1))
	s.Room.Wait(p, req)
	s.Unlock()
	wantWoken(t, told)
	other := beside(s, told)
	other.Lock()
	other.publish(ClassAccount(req), big.NewInt(-1))
	other.Unlock()
	lowered := told.Lowered
	if len(lowered) != 1 || lowered[0] != ClassAccount(req) {
		t.Fatalf("lowered are %v, want %v", lowered, ClassAccount(req))
	}
	s.Table.ServeStopped(lowered)
	wantWoken(t, told, "over")
}

// beside makes another space of the same ledger.
func beside(s *Space, told *News) *Space {
	other := NewSpace(s.Table, "other")
	other.Unlocking, other.Unlocked = s.Unlocking, func(n News) { *told = n }
	return other
}

// A limit counts the prefixes of a draft. When the draft is given up, the waiters that the limit has stopped are woken.
func TestRoom_WakesStoppedWaitersWhenADraftIsGivenUp(t *testing.T) {
	s, p, told := tight(t)
	other := beside(s, told)
	other.Lock()
	other.Begin()
	other.draft.take(other, taken{netip.MustParsePrefix("10.1.0.0/32"), Owner{Pool: "q", cluster: "w", class: "c"}})
	other.Unlock()
	req := asks("over")
	req.Class, req.Limits.Class = "c", big.NewInt(1)
	s.Lock()
	s.Room.Wait(p, req)
	s.Unlock()
	wantWoken(t, told)
	other.Lock()
	other.Discard()
	other.Unlock()
	s.Table.ServeStopped(told.Lowered)
	wantWoken(t, told, "over")
}
