package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
)

// patience is how long the answers of a round may take beyond it.
const patience = 2 * time.Minute

// serial numbers the claims, so that no name is used twice.
var serial atomic.Int64

func newName() string { return fmt.Sprintf("claim-%d", serial.Add(1)) }

// round is what one round of a team has shown. What a claim has cost is beyond what the
// processes take doing nothing, and counts all replicas of the team.
type round struct {
	rate, p50, p95   float64 // claims a second; milliseconds
	controllers, kcp float64 // milliseconds of processor time a claim
	memory           float64 // MiB
	conflicts        float64 // of the ledger, for 1,000 claims
}

// work is what was measured of a team with a number of clients.
type work struct {
	clients int
	team    *team
	rounds  []round
}

// play has the teams work in turns, in rounds, in an order that changes. The first
// round warms up and counts for nothing.
func (s *stage) play(ctx context.Context) ([]*work, error) {
	all := make([]*work, 0, len(s.clients)*len(s.teams))
	for _, clients := range s.clients {
		for _, t := range s.teams {
			all = append(all, &work{clients: clients, team: t})
		}
	}
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // an order needs no secret
	for n := range s.rounds + 1 {
		if n == 1 {
			if err := s.rest(ctx); err != nil {
				return nil, err
			}
		}
		order := slices.Clone(all)
		dice.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, w := range order {
			shown, err := s.once(ctx, w)
			if err != nil {
				return nil, fmt.Errorf("round %d, team %s, %d clients: %w", n, w.team.name, w.clients, err)
			}
			if n == 0 {
				continue
			}
			w.rounds = append(w.rounds, shown)
			s.say("round %d of %d, %s, %d clients: %.0f/s, p50 %.1f ms, p95 %.1f ms, processor time %.1f + %.1f ms, %.0f MiB, %.1f conflicts",
				n, s.rounds, w.team.name, w.clients, shown.rate, shown.p50, shown.p95, shown.controllers, shown.kcp, shown.memory, shown.conflicts)
		}
	}
	return all, nil
}

// once is one round. What it has made is gone when it returns.
func (s *stage) once(ctx context.Context, w *work) (round, error) {
	before, err := s.usage(ctx, w.team)
	if err != nil {
		return round{}, err
	}
	took, lasted, err := w.team.crowd(ctx, w.clients, s.round())
	if err != nil {
		return round{}, err
	}
	after, err := s.usage(ctx, w.team)
	if err != nil {
		return round{}, err
	}
	if len(took) == 0 {
		return round{}, errors.New("it has seen no answer: give it more --round-seconds")
	}
	answers := float64(len(took))
	passed := after.at - before.at
	each := func(before, after, share float64) float64 { return (after - before - share*passed) * 1000 / answers }
	return round{
		rate: answers / lasted.Seconds(), p50: page.Quantile(took, 0.50), p95: page.Quantile(took, 0.95),
		controllers: each(before.controllers, after.controllers, w.team.resting.controllers),
		kcp:         each(before.kcp, after.kcp, w.team.resting.kcp),
		memory:      after.memory / (1 << 20),
		conflicts:   (after.conflicts - before.conflicts) * 1000 / answers,
	}, w.team.clean(ctx, "first")
}

// crowd has clients claim side by side until the time is up, each its next claim when
// the last is answered. It returns how many milliseconds each took.
func (t *team) crowd(ctx context.Context, clients int, during time.Duration) ([]float64, time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	took := make([][]float64, clients)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range clients {
		group.Go(func() error {
			for time.Since(began) < during {
				one, err := t.tenants[i%len(t.tenants)].Claim(ctx, newName(), tenant.Bound, wanted()...)
				if err != nil {
					return err
				}
				took[i] = append(took[i], one.Seconds()*1000)
			}
			return nil
		})
	}
	err := group.Wait()
	return slices.Concat(took...), time.Since(began), err
}

// clean deletes all claims but those of a name that stay, and waits until nothing is
// left of them.
func (t *team) clean(ctx context.Context, stay ...string) error {
	for _, one := range t.tenants {
		if err := one.DeleteClaims(ctx, stay...); err != nil {
			return fmt.Errorf("clean %s: %w", one.Path, err)
		}
	}
	return tenant.Eventually(ctx, "everything of the round to be gone", func(ctx context.Context) error {
		for _, one := range t.tenants {
			records := &ipamv1alpha1.IPAllocationList{}
			if err := one.List(ctx, records); err != nil {
				return err
			}
			if len(records.Items) != len(stay) {
				return fmt.Errorf("%s has %d IPAllocations; %d stay", one.Path, len(records.Items), len(stay))
			}
		}
		return nil
	})
}
