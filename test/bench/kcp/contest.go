package kcp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"time"
)

// deleting is how many clients delete claims side by side.
const deleting = 8

// contest compares several contestants in the same rounds.
type contest struct {
	title       string
	contestants []*contestant
	ratios      []ratio
}

// contestant is one row of the table.
type contestant struct {
	name  string
	side  *side
	ready func(context.Context) error // prepares the round; may be nil
	play  func(context.Context, time.Duration) (round, error)
	// spaced: it rests so long between claims that its processor time is lost in that of the idle servers.
	spaced bool
	rounds []round
}

// ratio compares a contestant's rounds with those of another one. of and to are their places in the contest.
type ratio struct {
	name   string
	of, to int
}

// contests returns all that is measured.
func (s *stage) contests(opts *options) []contest {
	var list []contest
	for _, n := range opts.clients {
		title := fmt.Sprintf("%d clients", n)
		if n == 1 {
			title = "1 client"
		}
		list = append(list, s.besidePlain(s.besideBare(title, func(side *side) *contestant {
			return s.claims("", side, bySharedClass, n)
		}), n))
	}
	return append(list,
		s.networks(),
		s.besideBare(fmt.Sprintf("%d clients, delete → the record is gone", deleting), func(side *side) *contestant {
			return &contestant{side: side, ready: side.stock, play: side.deletions}
		}),
	)
}

// besideBare compares ipam-controller with the bare controller.
func (s *stage) besideBare(title string, of func(*side) *contestant) contest {
	bare, ipam := of(s.bare), of(s.ipam)
	bare.name, ipam.name = "bare controller", "ipam-controller"
	return contest{title: title, contestants: []*contestant{bare, ipam}, ratios: []ratio{{"ipam-controller / bare", 1, 0}}}
}

// besidePlain adds a CREATE that no controller answers to a comparison with the bare controller.
func (s *stage) besidePlain(c contest, clients int) contest {
	c.contestants = append(c.contestants, s.claims("CREATE that nobody answers", s.plain, unanswered, clients))
	c.ratios = append(c.ratios, ratio{"ipam-controller / nobody", 1, 2})
	return c
}

func (s *stage) claims(name string, side *side, k kind, clients int) *contestant {
	return &contestant{name: name, side: side, play: func(ctx context.Context, during time.Duration) (round, error) {
		return side.crowd(ctx, k, clients, during)
	}}
}

// chosen returns the contests whose title the options ask for.
func chosen(contests []contest, only *regexp.Regexp) ([]contest, error) {
	contests = slices.DeleteFunc(contests, func(c contest) bool { return !only.MatchString(c.title) })
	if len(contests) == 0 {
		return nil, fmt.Errorf("--only %q leaves nothing to measure", only)
	}
	return contests, nil
}

// play measures everything: one round to warm up, and then as many as wanted. The order of the contestants changes
// with each round, but is the same in each run.
func (s *stage) play(ctx context.Context, opts *options) ([]contest, error) {
	contests, err := chosen(s.contests(opts), opts.only)
	if err != nil {
		return nil, err
	}
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

// measure plays one round of one contestant. Round 0 warms up, and is not counted.
func (s *stage) measure(ctx context.Context, opts *options, c contest, who *contestant, n int) error {
	during := opts.round()
	if n == 0 {
		during = min(during, time.Second)
	}
	if who.ready != nil {
		if err := who.ready(ctx); err != nil {
			return err
		}
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
	if who.spaced {
		shown.controller, shown.kcp = math.NaN(), math.NaN()
	}
	if n > 0 {
		who.rounds = append(who.rounds, shown)
		s.Say("round %d of %d, %s, %s: %.0f/s, p50 %.1f ms, p95 %.1f ms, processor time %.1f + %.1f ms", n, opts.rounds, c.title, who.name,
			shown.rate, shown.p50, shown.p95, shown.controller, shown.kcp)
	}
	return who.side.clean(ctx)
}
