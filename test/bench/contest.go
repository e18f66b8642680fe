package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// crowdOfKinds is how many clients the kinds of claims are compared with.
const crowdOfKinds = 8

// contest is one thing that is measured of several contestants, in the same rounds.
type contest struct {
	title       string
	contestants []*contestant
	ratios      []ratio
}

// contestant is one row of the table.
type contestant struct {
	name   string
	side   *side
	play   func(context.Context, time.Duration) (round, error)
	rounds []round
}

// ratio is a contestant's rounds by another's, by their places in the contest.
type ratio struct {
	name   string
	of, to int
}

// contests are all that is measured.
func (s *stage) contests(opts *options) []contest {
	var list []contest
	for _, n := range opts.clients {
		title := fmt.Sprintf("%d clients", n)
		if n == 1 {
			title = "1 client"
		}
		list = append(list, contest{
			title: title,
			contestants: []*contestant{
				s.claims("bare controller", s.bare, bySharedClass, n),
				s.claims("bare, all fields", s.whole, bySharedClass, n),
				s.claims("ipam-controller", s.ipam, bySharedClass, n),
			},
			ratios: []ratio{{"ipam-controller / bare", 2, 0}, {"ipam-controller / all fields", 2, 1}},
		})
	}
	list = append(list, contest{
		title: fmt.Sprintf("%d clients, pool of their own", crowdOfKinds),
		contestants: []*contestant{
			s.claims("by poolRef", s.ipam, byOwnPool, crowdOfKinds),
			s.claims("by class", s.ipam, byOwnClass, crowdOfKinds),
			s.claims("to `PoolExhausted`", s.ipam, ofFullPool, crowdOfKinds),
		},
		ratios: []ratio{{"class / poolRef", 1, 0}, {"refusal / poolRef", 2, 0}},
	})
	return append(list, contest{
		title:       "1 client, pool of one block",
		contestants: []*contestant{{name: "delete → the next claim is bound", side: s.ipam, play: s.ipam.handover}},
	})
}

func (s *stage) claims(name string, side *side, k kind, clients int) *contestant {
	return &contestant{name: name, side: side, play: func(ctx context.Context, during time.Duration) (round, error) {
		return side.crowd(ctx, k, clients, during)
	}}
}

// play measures everything, once to warm up and then for as many rounds as wanted. Who
// follows whom changes with every round, in each run alike.
func (s *stage) play(ctx context.Context, opts *options) ([]contest, error) {
	contests := s.contests(opts)
	dice := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // an order needs no secret
	for n := range opts.rounds + 1 {
		if n == 1 {
			if err := s.rest(ctx); err != nil {
				return nil, err
			}
		}
		for _, c := range contests {
			order := slices.Clone(c.contestants)
			dice.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			for _, contestant := range order {
				if err := s.measure(ctx, opts, c, contestant, n); err != nil {
					return nil, fmt.Errorf("round %d, %s, %s: %w", n, c.title, contestant.name, err)
				}
			}
		}
	}
	return contests, nil
}

// measure is one round of one contestant. Round 0 warms up and counts for nothing.
func (s *stage) measure(ctx context.Context, opts *options, c contest, who *contestant, n int) error {
	during := opts.round()
	if n == 0 {
		during = min(during, time.Second)
	}
	before, err := s.usage(ctx, who.side)
	if err != nil {
		return err
	}
	shown, err := who.play(ctx, during)
	if err != nil {
		return err
	}
	after, err := s.usage(ctx, who.side)
	if err != nil {
		return err
	}
	shown.spend(before, after, who.side.resting)
	if n > 0 {
		who.rounds = append(who.rounds, shown)
		s.say("round %d of %d, %s, %s: %.0f/s, p50 %.1f ms, p95 %.1f ms, processor time %.1f + %.1f ms", n, opts.rounds, c.title, who.name,
			shown.rate, shown.p50, shown.p95, shown.controller, shown.kcp)
	}
	return who.side.clean(ctx)
}
