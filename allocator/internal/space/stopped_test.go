package space

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// crowded makes a full space in which a limit stops all waiters. They are of one workspace. It returns the account of
// the workspace. ask changes the request of a waiter.
func crowded(t testing.TB, waiters int, ask func(*ledger.Request, int)) (*Space, *News, Account) {
	t.Helper()
	s, told := spaceOf(netip.MustParsePrefix("10.0.0.0/12"))
	p := s.Pool("p")
	s.Lock()
	defer s.Unlock()
	full := block("full")
	full.Held.Cluster = "other"
	come(s, p.CIDR.String(), full)
	s.usage.add(Account{pool: "p", Cluster: "w"}, big.NewInt(8))
	for i := range waiters {
		r := asks(ledger.ClaimID(fmt.Sprintf("c%06d", i)))
		r.Since, r.Limits.Pool = time.Unix(int64(i), 0), big.NewInt(8)
		ask(&r, i)
		s.Room.Wait(p, r)
	}
	s.News = News{}
	return s, told, Account{pool: "p", Cluster: "w"}
}

// release makes the workspace hold one address less, and sweeps the waiters that its limit has stopped.
func release(s *Space, on Account) {
	s.Lock()
	s.usage.add(on, big.NewInt(-1))
	s.Unlock()
	s.Table.ServeStopped([]Account{on})
}

// A limit stops many waiters. When the limit has addresses again, no more waiters are told to wait for room than the
// limit has addresses for.
func TestRoom_WakesNoMoreWaitersThanTheLimitHasAddressesFor(t *testing.T) {
	for _, waiters := range []int{100, 10_000} {
		s, told, on := crowded(t, waiters, func(r *ledger.Request, i int) { r.Length = 30 + i%3 })
		release(s, on)
		wantWoken(t, told, "c000002") // the first that asks for one address
		release(s, on)
		wantWoken(t, told, "c000001", "c000005")
	}
}

// Claims for exact prefixes are all woken: each needs room of its own.
func TestRoom_WakesAllWaitersForExactPrefixes(t *testing.T) {
	s, told, on := crowded(t, 1000, func(r *ledger.Request, i int) {
		r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	})
	release(s, on)
	if len(told.Woken) != 1000 {
		t.Errorf("%d of 1000 were woken", len(told.Woken))
	}
}

// When the limit stops a waiter no more, the waiter waits for room, in a place below the limit. If it withdraws, or
// asks for more, the next waiter gets that place, and is woken.
func TestRoom_WakesTheNextWaiterIfTheWokenOneLeaves(t *testing.T) {
	for name, leave := range map[string]func(*Space){
		"withdrawn": func(s *Space) { s.Room.Withdraw(s.Pool("p"), "c000000") },
		"asks for more": func(s *Space) {
			r := asks("c000000")
			r.Length, r.Limits.Pool = 28, big.NewInt(8)
			s.Room.Wait(s.Pool("p"), r)
		},
	} {
		s, told, on := crowded(t, 3, func(*ledger.Request, int) {})
		release(s, on)
		if len(told.Woken) != 1 || told.Woken[0].Claim != "c000000" {
			t.Fatalf("woken are %v, want the oldest alone", told.Woken)
		}
		s.Lock()
		leave(s)
		s.Unlock()
		s.Table.ServeStopped(told.Lowered)
		if len(told.Woken) != 1 || told.Woken[0].Claim != "c000001" {
			t.Errorf("%s: woken are %v, want the next", name, told.Woken)
		}
	}
}

// shadow changes a space at random, and searches for waiters that were forgotten; see forgotten.
type shadow struct {
	*Space
	random *rand.Rand
	taken  map[netip.Prefix]ledger.Request
	told   []Account
}

func (s *shadow) request(i int) ledger.Request {
	r := asks(ledger.ClaimID(fmt.Sprint("c", i)))
	r.Holder.Cluster = ledger.ClusterName(fmt.Sprint("w", s.random.IntN(2)))
	r.Length, r.Since = 29+s.random.IntN(4), time.Unix(int64(i), 0)
	r.Class = []string{"", "a", "b"}[s.random.IntN(3)]
	r.Limits.Pool = big.NewInt(8)
	if r.Class != "" {
		r.Limits.Class = big.NewInt(6)
	}
	if s.random.IntN(4) == 0 {
		r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(s.random.IntN(32))}), r.Length).Masked()
	}
	return r
}

func (s *shadow) step(i int) {
	s.Lock()
	p := s.Pool("p")
	switch s.random.IntN(6) {
	case 0, 1:
		s.Room.Wait(p, s.request(s.random.IntN(60)))
	case 2:
		s.Room.Withdraw(p, ledger.ClaimID(fmt.Sprint("c", s.random.IntN(60))))
	case 3: // one with a hold is bound
		for _, w := range slices.SortedFunc(p.Waiting.all(), byClaim) {
			if broken := p.Over(w.request, nil); w.held && broken == nil {
				s.bind(w.Last, w.request)
				break
			}
		}
	case 4: // others take room
		r := s.request(i)
		r.Holder.Claim, r.Class = ledger.ClaimID(fmt.Sprint("other", i)), ""
		if prefix, ok := p.Index.Find(r.Length, r.Strategy); ok && s.random.IntN(2) == 0 {
			r.Holder.Cluster = "other"
			s.bind(prefix, r)
		}
	default:
		if taken := slices.SortedFunc(maps.Keys(s.taken), ledger.ComparePrefixes); len(taken) > 0 {
			prefix := taken[s.random.IntN(len(taken))]
			delete(s.taken, prefix)
			leave(s.Space, prefix)
		}
	}
	s.Unlock()
	for len(s.told) > 0 {
		on := s.told
		s.told = nil
		s.Table.ServeStopped(on)
	}
}

func (s *shadow) bind(prefix netip.Prefix, r ledger.Request) {
	rec := block(r.Holder.Claim)
	rec.Held.Cluster, rec.Held.Class = r.Holder.Cluster, r.Class
	come(s.Space, prefix.String(), rec)
	s.taken[prefix] = r
}

func byClaim(a, b *Waiter) int { return cmp.Compare(a.request.Holder.Claim, b.request.Holder.Claim) }

// forgotten returns a waiter that could be served, or that shows a limit which does not stop it; nil: there is none. A
// limit stops a waiter, too, while others of the same kind have the places below it.
func (s *shadow) forgotten() *Waiter {
	p := s.Pool("p")
	for w := range p.Waiting.all() {
		if w.reason == noRoom {
			if !w.held && p.fits(w) {
				return w
			}
			continue
		}
		taken := Pending{}
		for _, a := range limitedBy(w.request) {
			taken[a] = new(big.Int)
		}
		for other := range p.Waiting.all() {
			sameKind := kindOf(other.request) == kindOf(w.request) && !w.request.Exact.IsValid() && other.reason == noRoom
			for _, a := range limitedBy(other.request) {
				if taken[a] != nil && (other.held || sameKind && other.cluster() == w.cluster()) {
					taken[a].Add(taken[a], p.wanted(other.request))
				}
			}
		}
		if broken := p.Over(w.request, taken); broken == nil {
			return w
		}
	}
	return nil
}

// At random, blocks are bound and released, and claims withdraw and ask again. No waiter is forgotten.
func TestRoom_ForgetsNoWaiter(t *testing.T) {
	stopped := 0
	for seed := range uint64(60) {
		space, _ := spaceOf(netip.MustParsePrefix("10.0.0.0/27"))
		s := &shadow{Space: space, random: rand.New(rand.NewPCG(seed, 3)), taken: map[netip.Prefix]ledger.Request{}}
		s.Unlocked = func(n News) { s.told = append(s.told, n.Lowered...) }
		for i := range 400 {
			s.step(i + 1)
			s.Lock()
			for w := range s.Pool("p").Waiting.all() {
				if w.reason != noRoom {
					stopped++
				}
			}
			if w := s.forgotten(); w != nil {
				t.Fatalf("seed %d, step %d: %+v is forgotten, and waits for reason %d", seed, i, w.request, w.reason)
			}
			s.Unlock()
		}
	}
	if stopped == 0 {
		t.Error("no limit has ever stopped a waiter; want some")
	}
}
