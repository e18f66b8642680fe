package allocator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// storm is several allocators working on the same pools and the same claims.
type storm struct {
	*fixture
	allocators []*Allocator
	pools      []ledger.PoolID
	claims     int
	steps      int
	callers    int
}

// run has the callers bind, release and change claims at random.
func (s *storm) run() {
	var wg sync.WaitGroup
	for i := range s.callers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for range s.steps {
				s.step(random)
			}
		})
	}
	wg.Wait()
}

func (s *storm) step(random *rand.Rand) {
	a := s.allocators[random.IntN(len(s.allocators))]
	claim := fmt.Sprint("c", random.IntN(s.claims))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if random.IntN(20) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(3000))*time.Microsecond)
		defer cancel()
	}
	var err error
	switch random.IntN(8) {
	case 0, 1, 2, 3:
		_, err = a.Bind(ctx, request(s.pools[random.IntN(len(s.pools))], claim, 26+random.IntN(7)))
	case 4, 5, 6:
		err = a.Release(ctx, ledger.ClaimID(claim))
	case 7:
		err = a.Retained().SetPolicy(ctx, ledger.ClaimID(claim), []ledger.ReclaimPolicy{ledger.Delete, ledger.Retain}[random.IntN(2)])
	}
	var exhausted *ledger.ExhaustedError
	if err != nil && ctx.Err() == nil && !errors.As(err, &exhausted) {
		s.t.Errorf("got %v, want a refusal", err)
	}
}

func TestStorm(t *testing.T) {
	l := newLedger(t, func(o *Options) { o.MaxTxnOps = 16 })
	s := &storm{fixture: l, allocators: []*Allocator{l.Allocator, l.open(), l.open()}, claims: 80, steps: 80, callers: 24}
	l.pool("p", "10.0.0.0/24")
	l.pool("q", "10.0.1.0/24")
	a, b := root("a", "10.1.0.0/24"), root("b", "10.1.0.128/25")
	a.Space, b.Space = "domain", "domain"
	for _, p := range []ledger.Pool{a, b} {
		must.Get(l.Pools().Register(t.Context(), p))(t)
	}
	s.pools = []ledger.PoolID{"p", "q", "a", "b"}
	for range 2 {
		s.run()
		l.sameAsLedger(s.allocators[1:]...)
	}
}
