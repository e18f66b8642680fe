package kcp

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"time"
)

// besideStorm measures one client of a tenant while many of another claim from the same
// pool. The processor time is by all their answers.
func (s *side) besideStorm(ctx context.Context, k kind, during time.Duration) (round, error) {
	storming := *s
	storming.tenants = s.tenants[1:2]
	quiet := *s
	quiet.tenants = s.tenants[:1]
	var calm, wild round
	var both sync.WaitGroup
	var errs [2]error
	both.Go(func() { wild, errs[0] = storming.crowd(ctx, k, storm, during) })
	both.Go(func() { calm, errs[1] = quiet.crowd(ctx, k, 1, during) })
	both.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return round{}, err
	}
	calm.answers += wild.answers
	return calm, nil
}

const (
	oneClient      = "1 client" // title of the contest with one
	crowdOfKinds   = 8          // clients that the kinds of claims are compared with
	crowdOfTenants = 32         // clients that draw on one pool, of all tenants
	storm          = 64         // clients of the tenant that storms
)

// contest is one thing that is measured of several contestants, in the same rounds.
type contest struct {
	title       string
	contestants []*contestant
	ratios      []ratio
}

// contestant is one row of the table.
type contestant struct {
	name  string
	side  *side
	ready func(context.Context) error // makes what the round needs; may be nil
	play  func(context.Context, time.Duration) (round, error)
	// spaced: it rests so long that its processor time is lost in that of the servers which rest.
	spaced bool
	rounds []round
}

// ratio is a contestant's rounds by another's, by their places in the contest.
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
			title = oneClient
		}
		list = append(list, s.besidePlain(s.besideBare(title, func(side *side) *contestant {
			return s.claims("", side, bySharedClass, n)
		}), n))
	}
	list = append(list,
		s.besideBare(fmt.Sprintf("%d clients of %d tenants, one shared pool", crowdOfTenants, tenantCount), func(side *side) *contestant {
			return s.claims("", side, bySharedPool, crowdOfTenants)
		}),
		s.networks(),
		s.storms(),
		s.besideBare(fmt.Sprintf("%d clients, delete → the record is gone", crowdOfKinds), func(side *side) *contestant {
			return &contestant{side: side, ready: side.stock, play: side.deletions}
		}),
	)
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

// besideBare compares ipam-controller with the bare controller, and with that which
// writes all fields.
func (s *stage) besideBare(title string, of func(*side) *contestant) contest {
	c := contest{title: title, ratios: []ratio{{"ipam-controller / bare", 2, 0}, {"ipam-controller / all fields", 2, 1}}}
	names := []string{"bare controller", "bare, all fields", "ipam-controller"}
	for i, side := range s.answering() {
		who := of(side)
		who.name = names[i]
		c.contestants = append(c.contestants, who)
	}
	return c
}

// besidePlain adds a CREATE that nobody answers to a comparison with the bare controller.
func (s *stage) besidePlain(c contest, clients int) contest {
	c.contestants = append(c.contestants, s.claims("CREATE that nobody answers", s.plain, unanswered, clients))
	c.ratios = append(c.ratios, ratio{"ipam-controller / nobody", 2, 3})
	return c
}

// storms compares what a storm does to a quiet tenant: with each controller, and with none,
// when nothing but kcp is shared.
func (s *stage) storms() contest {
	c := s.besideBare(fmt.Sprintf("1 client, while another tenant storms with %d", storm), func(side *side) *contestant {
		return &contestant{side: side, play: func(ctx context.Context, during time.Duration) (round, error) {
			return side.besideStorm(ctx, bySharedClass, during)
		}}
	})
	c.contestants = append(c.contestants,
		s.claims("ipam-controller, without the storm", s.ipam, bySharedClass, 1),
		&contestant{name: "CREATE that nobody answers", side: s.plain, play: func(ctx context.Context, during time.Duration) (round, error) {
			return s.plain.besideStorm(ctx, unanswered, during)
		}},
		s.claims("CREATE that nobody answers, without the storm", s.plain, unanswered, 1),
	)
	c.ratios = append(c.ratios, ratio{"ipam-controller, with / without the storm", 2, 3}, ratio{"nobody answers, with / without the storm", 4, 5})
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

// play measures everything, once to warm up and then for as many rounds as wanted. Who
// follows whom changes with every round, in each run alike.
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

// measure is one round of one contestant. Round 0 warms up and counts for nothing.
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
