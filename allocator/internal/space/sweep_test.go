package space

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/internal/cidr"
)

// When prefixes become free, the claims that are woken, and their order, are those that a search of all waiters finds.
// One transaction frees one block or several. Waiters wait for an exact prefix or for a length, many of them for the
// same prefix, and some are beyond their limit.
func TestRoom_ServesTheSameWaitersThatASearchFinds(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		space, _ := spaceOf(netip.MustParsePrefix("10.0.0.0/28"))
		p := space.Pool("p")
		s := searcher{p: p, turns: map[ledger.ClusterName]int{}, holds: Pending{}}
		space.Lock()
		var taken []netip.Prefix // all of it, in blocks of two
		for i := range 8 {
			addr := netip.AddrFrom4([4]byte{10, 0, 0, byte(2 * i)})
			taken = append(taken, netip.PrefixFrom(addr, 31))
			come(space, taken[i].String(), block(ledger.ClaimID(fmt.Sprint("holder", i))))
		}
		for i := range 40 + 60*int(seed%3) { // some workspaces have more wishes than come first
			space.Room.Wait(p, someRequest(random, i))
		}
		for i := range 4 { // limits stop some waiters that wait for room
			of := Account{pool: "p", Cluster: ledger.ClusterName(fmt.Sprint("w", i))}
			space.usage.add(of, big.NewInt(int64(random.IntN(4))))
		}
		random.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
		for freed := range slices.Chunk(taken, 1+int(seed%3)) {
			space.News = News{}
			want := s.woken(freed)
			leave(space, freed...)
			var got []ledger.ClaimID
			for _, h := range space.News.Woken {
				got = append(got, h.Claim)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v was freed, and woken are %v; want %v", seed, freed, got, want)
			}
		}
		space.Unlock()
	}
}

// someRequest returns a request of one of a few workspaces, for an exact prefix or for a length, with or without a
// limit.
func someRequest(random *rand.Rand, i int) ledger.Request {
	r := asks(ledger.ClaimID(fmt.Sprintf("c%03d", i)))
	r.Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", random.IntN(4)))
	r.Since = time.Unix(int64(random.IntN(20)), 0)
	r.Length = 29 + random.IntN(4)
	if random.IntN(3) > 0 {
		r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(16))}), r.Length).Masked()
	}
	if random.IntN(3) == 0 { // a limit that does not stop it yet
		r.Limits.Pool = big.NewInt(int64(1<<(32-r.Length) + random.IntN(3)))
	}
	return r
}

// searcher finds the waiters to serve by a search of all waiters. It notes the turns and the holds.
type searcher struct {
	p     *Pool
	now   int
	turns map[ledger.ClusterName]int
	holds Pending
}

// woken returns the claims that have to be woken, in their order, when prefixes become free. It changes the index, and
// restores it.
func (s *searcher) woken(freed []netip.Prefix) (woken []ledger.ClaimID) {
	for _, prefix := range freed {
		s.p.Index.Put(prefix)
	}
	var held []netip.Prefix
	passed, wishes := map[*Waiter]bool{}, map[ledger.ClusterName][]*Waiter{}
	for w := s.first(passed); w != nil; w = s.first(passed) {
		if wishes[w.cluster()] == nil {
			wishes[w.cluster()] = s.wishes(w.cluster())
		}
		for _, wish := range wishes[w.cluster()] {
			if !passed[wish] && s.p.fits(wish) {
				w = wish
				break
			}
		}
		passed[w] = true
		if broken := s.p.Over(w.request, s.holds); broken != nil && w.reason == reasonOf(broken) {
			continue // it waits for that reason already
		} else if broken != nil {
			woken = append(woken, w.request.Holder.Claim)
			continue
		}
		woken = append(woken, w.request.Holder.Claim)
		prefix := w.request.Exact
		if !prefix.IsValid() {
			prefix, _ = s.p.Index.Find(w.request.Length, w.request.Strategy)
		}
		s.p.Index.Take(prefix)
		held = append(held, prefix)
		s.now++
		s.turns[w.cluster()] = s.now
		for _, a := range limitedBy(w.request) {
			usage(s.holds).add(a, cidr.Size(prefix))
		}
	}
	for _, prefix := range held {
		s.p.Index.Put(prefix)
	}
	for _, prefix := range freed {
		s.p.Index.Take(prefix)
	}
	return woken
}

// first returns the first waiter by turn and age that fits, was not passed over, and is not stopped by the limit that
// it shows.
func (s *searcher) first(passed map[*Waiter]bool) (first *Waiter) {
	for w := range s.p.Waiting.all() {
		if w.held || passed[w] || !s.p.fits(w) || w.reason != noRoom && s.p.Over(w.request, s.holds) != nil {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(s.turns[w.cluster()], s.turns[first.cluster()]), byAge(w, first)) < 0 {
			first = w
		}
	}
	return first
}

func byAge(a, b *Waiter) int { return cmp.Or(a.since.Compare(b.since), byClaim(a, b)) }

// wishes returns the waiters of a workspace that come first when it has its turn. Its youngest waiters for exact
// prefixes choose the prefixes, and the oldest waiter for each chosen prefix that fits comes first.
func (s *searcher) wishes(c ledger.ClusterName) (firsts []*Waiter) {
	all := slices.DeleteFunc(slices.SortedFunc(s.p.Waiting.all(), byAge), func(w *Waiter) bool {
		return !w.request.Exact.IsValid() || w.cluster() != c || w.held
	})
	firsts = []*Waiter{}
	for _, w := range all[max(0, len(all)-mostPreferred):] {
		if s.p.fits(w) {
			same := func(o *Waiter) bool { return o.request.Exact == w.request.Exact }
			firsts = append(firsts, all[slices.IndexFunc(all, same)])
		}
	}
	return firsts
}
