package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/test/bench/page"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
)

// patience is how long anything may take before the program gives up.
const patience = 2 * time.Minute

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
			s.Say("round %d of %d, %s, %d clients: %.0f/s, p50 %.1f ms, p95 %.1f ms, processor time %.1f + %.1f ms, %.0f MiB, %.1f conflicts",
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
	claimed, lasted, err := tenant.Crowd{Tenants: w.team.tenants, Clients: w.clients, Answered: tenant.Bound, Options: wanted()}.Claim(ctx, s.round())
	if err != nil {
		return round{}, err
	}
	after, err := s.usage(ctx, w.team)
	if err != nil {
		return round{}, err
	}
	if len(claimed) == 0 {
		return round{}, errors.New("it has seen no answer: give it more --round-seconds")
	}
	took := make([]float64, len(claimed)) // milliseconds
	for i, one := range claimed {
		took[i] = one.Seconds() * 1000
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
	}, tenant.Clean(ctx, w.team.tenants, first)
}
