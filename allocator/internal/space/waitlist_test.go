package space

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Whatever is done to the list, it serves as one that is searched from end to end.
func TestWaiting_AsSearched(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q waitlist
	turns := map[ledger.ClusterName]uint64{}
	now := uint64(0)
	add := func(i int) {
		w := &Waiter{request: ledger.Request{Pool: "p", Length: 24 + random.IntN(5), Holder: ledger.Holder{
			Claim: ledger.ClaimID(fmt.Sprint("c", i)), Cluster: ledger.ClusterName(fmt.Sprint("w", random.IntN(5))),
		}}}
		w.since = time.Unix(int64(random.IntN(50)), 0)
		if _, waits := turns[w.cluster()]; !waits {
			turns[w.cluster()] = now
		}
		q.add(w)
	}
	search := func(largest int) *Waiter {
		var first *Waiter
		for _, w := range q.Claims {
			if w.request.Length < largest {
				continue
			}
			if first == nil || cmp.Or(cmp.Compare(turns[w.cluster()], turns[first.cluster()]), older(w, first)) < 0 {
				first = w
			}
		}
		return first
	}
	leave := func(w *Waiter) {
		q.remove(w)
		for _, other := range q.Claims {
			if other.cluster() == w.cluster() {
				return
			}
		}
		delete(turns, w.cluster())
	}
	for i := range 5000 {
		largest := 24 + random.IntN(5)
		want := search(largest)
		if got := q.next(largest); got != want {
			t.Fatalf("step %d: next(%d) = %v; want %v", i, largest, got, want)
		}
		switch random.IntN(4) {
		case 0, 1:
			add(i)
		case 2:
			for _, w := range q.Claims {
				leave(w)
				break
			}
		default:
			if want != nil {
				q.hold(want, netip.Prefix{})
				want.clock = &clock{held: 1, stop: func() bool { return true }}
				now++
				turns[want.cluster()] = now
				q.remove(want)
				if q.turns.waits[want.cluster()] == nil {
					delete(turns, want.cluster())
				}
			}
		}
	}
}
