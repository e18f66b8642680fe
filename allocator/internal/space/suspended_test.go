package space

import (
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

// crowded makes a full space in which waiters of one workspace are suspended. It returns their account.
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

// release makes the workspace hold an address less, and looks at those that this may serve.
func release(s *Space, on Account) (looks int) {
	s.Lock()
	s.usage.add(on, big.NewInt(-1))
	s.Unlock()
	return s.Room.requeue(on)
}

// However many are suspended, only those are looked at that the released addresses may serve.
func TestSuspended_FewAreLookedAt(t *testing.T) {
	for _, waiters := range []int{100, 10_000} {
		s, _, on := crowded(t, waiters, func(r *ledger.Request, i int) { r.Length = 30 + i%3 })
		// The first of each length that has no place is looked at, beside those that have one.
		for i, want := range []int{3 + 1, 3 + 2 + 1} {
			if got := release(s, on); got != want {
				t.Errorf("%d wait, and %d addresses are free: %d were looked at; want %d", waiters, i+1, got, want)
			}
		}
	}
}

// However many have no room, others wait for few of them at a time.
func TestSuspended_TheLockIsReleasedBetween(t *testing.T) {
	s, told, on := crowded(t, 1000, func(r *ledger.Request, i int) {
		r.Exact = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)
	})
	most, all := 0, 0
	s.Unlocked = func(n News) {
		*told = n
		most, all = max(most, len(n.Woken)), all+len(n.Woken)
	}
	release(s, on)
	if most > looksAtOnce || all != 1000 {
		t.Errorf("%d were woken, at most %d at once; want 1000, and %d", all, most, looksAtOnce)
	}
}

// A waiter that was put back without room, and leaves without a block, makes place for the next.
func TestSuspended_APlaceIsPassedOn(t *testing.T) {
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
		s.Table.Relieve(told.Relieved)
		if len(told.Woken) != 1 || told.Woken[0].Claim != "c000001" {
			t.Errorf("%s: woken are %v, want the next", name, told.Woken)
		}
	}
}

// shadow checks after each step that a limit stops every suspended waiter, unless older waiters of the same kind
// have its place.
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
		for _, id := range slices.Sorted(maps.Keys(p.Waiting.Claims)) {
			w := p.Waiting.Claims[id]
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
		s.Table.Relieve(on)
	}
}

func (s *shadow) bind(prefix netip.Prefix, r ledger.Request) {
	rec := block(r.Holder.Claim)
	rec.Held.Cluster, rec.Held.Class = r.Holder.Cluster, r.Class
	come(s.Space, prefix.String(), rec)
	s.taken[prefix] = r
}

// forgotten finds a waiter that is suspended, though no limit stops it and no other one has its place.
func (s *shadow) forgotten() *Waiter {
	p := s.Pool("p")
	for _, w := range p.Waiting.Claims {
		if w.suspended == (Account{}) {
			continue
		}
		taken := new(big.Int) // by those that are not suspended on the account and have a better right
		for _, other := range p.Waiting.Claims {
			sameKind := kindOf(other.request) == kindOf(w.request) && !w.request.Exact.IsValid()
			onIt := PoolAccount(other.request) == w.suspended || ClassAccount(other.request) == w.suspended
			if other.suspended != w.suspended && onIt && (other.held || sameKind) {
				taken.Add(taken, p.wanted(other.request))
			}
		}
		if broken := p.Over(w.request, Pending{w.suspended: taken}); broken == nil {
			return w
		}
	}
	return nil
}

// Whatever is bound, released, withdrawn and asked again, every waiter is served in the end.
func TestSuspended_NobodyIsForgotten(t *testing.T) {
	suspended := 0
	for seed := range uint64(60) {
		space, _ := spaceOf(netip.MustParsePrefix("10.0.0.0/27"))
		s := &shadow{Space: space, random: rand.New(rand.NewPCG(seed, 3)), taken: map[netip.Prefix]ledger.Request{}}
		s.Unlocked = func(n News) { s.told = append(s.told, n.Relieved...) }
		for i := range 400 {
			s.step(i + 1)
			s.Lock()
			for _, w := range s.Pool("p").Waiting.Claims {
				if w.suspended != (Account{}) {
					suspended++
				}
			}
			if w := s.forgotten(); w != nil {
				t.Fatalf("seed %d, step %d: %+v is suspended on %+v, which does not stop it", seed, i, w.request, w.suspended)
			}
			s.Unlock()
		}
	}
	if suspended == 0 {
		t.Error("no waiter was ever suspended; want some")
	}
}
