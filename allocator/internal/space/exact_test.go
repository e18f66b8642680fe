package space

import (
	"cmp"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Room that appears goes to the waiters whose turn it is by a search of all, whether one block is freed or several by
// one transaction, whether they wait for an exact prefix or for a length, many of them for the same prefix, and some
// beyond their limit.
func TestRoom_ServesAsSearched(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		table, told := NewTable(), &News{}
		table.HoldTime, table.Logger, table.Now = time.Hour, slog.Default(), time.Now
		table.After = func(time.Duration, func()) func() bool { return func() bool { return true } }
		s := NewSpace(table, "s")
		s.Unlocking, s.Unlocked = func() {}, func(n News) { *told = n }
		all := netip.MustParsePrefix("10.0.0.0/28")
		s.putPool(ledger.Pool{ID: "p", CIDR: all, State: ledger.PoolOpen})
		p := s.Pool("p")
		s.Lock()
		var taken []netip.Prefix // all of it, in blocks of two
		for i := range 8 {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(2 * i)})
			taken = append(taken, netip.PrefixFrom(addr, 31))
			come(s, taken[i].String(), block(ledger.ClaimID(fmt.Sprint("holder", i))))
		}
		for i := range 40 + 60*int(seed%3) { // with more wishes of a workspace than come first, too
			s.Room.Wait(p, someRequest(random, i))
		}
		for c := range p.Waiting.turns.waits { // so that the limits of some are met that wait in a line
			s.usage.add(Account{pool: "p", Cluster: c}, big.NewInt(int64(random.IntN(4))))
		}
		random.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
		for freed := range slices.Chunk(taken, 1+int(seed%3)) {
			s.News = News{}
			want := searched(p, freed)
			leave(s, freed...)
			var got []ledger.ClaimID
			for _, h := range s.News.Woken {
				got = append(got, h.Claim)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v was freed, and woken are %v; want %v", seed, freed, got, want)
			}
			for c, turn := range p.Waiting.turns.waits {
				if slices.ContainsFunc(turn.lanes, func(l *waitLane) bool { return !slices.Contains(p.Waiting.lines, l.line) }) {
					t.Fatalf("seed %d: after %v was freed, workspace %s has a lane of a line that is over", seed, freed, c)
				}
			}
		}
		s.Unlock()
	}
}

// someRequest is one of a few workspaces: of an exact prefix or of a length, with or without a limit.
func someRequest(random *rand.Rand, i int) ledger.Request {
	r := asks(ledger.ClaimID(fmt.Sprintf("c%03d", i)))
	r.Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", random.IntN(4)))
	r.Since = time.Unix(int64(random.IntN(20)), 0)
	r.Length = 29 + random.IntN(4)
	if random.IntN(3) > 0 {
		r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(16))}), r.Length).Masked()
	}
	if random.IntN(3) == 0 { // as yet it may have what it asks for
		r.Limits.Pool = big.NewInt(int64(1<<(32-r.Length) + random.IntN(3)))
	}
	return r
}

// searched are those that would be woken in their order if prefixes became free. It changes nothing
// but the index and the turns, and it restores both.
func searched(p *Pool, freed []netip.Prefix) (woken []ledger.ClaimID) {
	turns := map[ledger.ClusterName]uint64{}
	for c, t := range p.Waiting.turns.waits {
		turns[c] = t.served
	}
	now, passed := p.Waiting.turns.now, map[*Waiter]bool{}
	for _, prefix := range freed {
		p.Index.Put(prefix)
	}
	var held []netip.Prefix
	for {
		var first *Waiter
		for _, w := range p.Waiting.Claims {
			if w.held || w.suspended != (Account{}) || passed[w] || !p.fits(w) {
				continue
			}
			if first == nil || cmp.Or(cmp.Compare(turns[w.cluster()], turns[first.cluster()]), older(w, first)) < 0 {
				first = w
			}
		}
		if first == nil {
			break
		}
		first = wished(p, first, passed)
		passed[first] = true
		woken = append(woken, first.request.Holder.Claim)
		if broken := p.Over(first.request, nil); broken != nil {
			continue
		}
		prefix := first.request.Exact
		if !prefix.IsValid() {
			prefix, _ = p.Index.Find(first.request.Length, first.request.Strategy)
		}
		p.Index.Take(prefix)
		held = append(held, prefix)
		now++
		turns[first.cluster()] = now
	}
	for _, prefix := range held {
		p.Index.Put(prefix)
	}
	for _, prefix := range freed {
		p.Index.Take(prefix)
	}
	return woken
}

// wished returns the waiter that comes first in the workspace of the one that is in turn: of its youngest waiters for exact
// prefixes, the oldest that fits, or an older one for the same prefix; else the one in turn.
func wished(p *Pool, inTurn *Waiter, passed map[*Waiter]bool) *Waiter {
	var wishes []*Waiter
	for _, w := range p.Waiting.Claims {
		if w.request.Exact.IsValid() && w.cluster() == inTurn.cluster() && w.suspended == (Account{}) && !w.held && !passed[w] {
			wishes = append(wishes, w)
		}
	}
	slices.SortFunc(wishes, older)
	for _, w := range wishes[max(0, len(wishes)-mostPreferred):] {
		if p.fits(w) {
			return wishes[slices.IndexFunc(wishes, func(o *Waiter) bool { return o.request.Exact == w.request.Exact })]
		}
	}
	return inTurn
}
