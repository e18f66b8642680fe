package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/local"
)

// answersBeside is how many claims each client sees answered before the leader is lost,
// and after.
const answersBeside = 3

// loss is a way to lose the active replica, and the seconds without service that it has cost.
type loss struct {
	name string
	team *team
	lose func(context.Context, *local.Controller) error
	mend func(context.Context, *local.Controller) error // afterwards, so that the team is complete again
	gaps []float64
}

// losses are all that is measured.
func (s *stage) losses() []*loss {
	one, elected := s.teams[0], s.teams[1]
	start := func(ctx context.Context, c *local.Controller) error { return c.Start(ctx) }
	stop := func(_ context.Context, c *local.Controller) error { return c.Stop() }
	kill := func(_ context.Context, c *local.Controller) error { return c.Kill() }
	return []*loss{
		{name: "one replica, stopped and started again", team: one, lose: both(stop, start), mend: nothing},
		{name: "one replica, killed and started again", team: one, lose: both(kill, start), mend: nothing},
		{name: "three, the leader stopped", team: elected, lose: stop, mend: start},
		{name: "three, the leader killed", team: elected, lose: kill, mend: start},
		{
			name: "three, the leader paused", team: elected,
			lose: func(_ context.Context, c *local.Controller) error { return c.Pause() },
			mend: func(ctx context.Context, c *local.Controller) error {
				// It notices that it has lost the lease, and ends.
				return errors.Join(c.Resume(), c.AwaitEnd(ctx), c.Start(ctx))
			},
		},
	}
}

func both(first, second func(context.Context, *local.Controller) error) func(context.Context, *local.Controller) error {
	return func(ctx context.Context, c *local.Controller) error {
		return errors.Join(first(ctx, c), second(ctx, c))
	}
}

func nothing(context.Context, *local.Controller) error { return nil }

// fail has every way to lose the leader happen in turns, while claims are held.
func (s *stage) fail(ctx context.Context) ([]*loss, error) {
	for _, t := range s.teams {
		s.Say("%s: making %d claims to be held", t.name, s.held)
		if err := t.hold(ctx, s.held); err != nil {
			return nil, err
		}
	}
	all := s.losses()
	for n := range s.failovers {
		for _, l := range all {
			gap, err := l.once(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			l.gaps = append(l.gaps, gap.Seconds())
			s.Say("loss %d of %d, %s: %.2f s without service", n+1, s.failovers, l.name, gap.Seconds())
		}
	}
	return all, nil
}

// hold makes claims that stay.
func (t *team) hold(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range n {
		group.Go(func() error {
			_, err := t.tenants[i%len(t.tenants)].Claim(ctx, tenant.NewName(), tenant.Bound, wanted()...)
			return err
		})
	}
	return group.Wait()
}

// once loses the active replica while a client of each tenant claims, and returns the longest
// time that a client was without an answer.
func (l *loss) once(ctx context.Context) (time.Duration, error) {
	leader, err := l.team.leader(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	probes := make([]*probe, len(l.team.tenants))
	lost := make(chan struct{})
	clients, working := errgroup.WithContext(ctx)
	for i, one := range l.team.tenants {
		probes[i] = &probe{tenant: one, warm: make(chan struct{})}
		clients.Go(func() error { return probes[i].run(working, lost) })
	}
	for _, p := range probes {
		select {
		case <-p.warm:
		case <-working.Done():
			return 0, clients.Wait()
		}
	}
	err = l.lose(ctx, leader)
	close(lost)
	if err := errors.Join(err, clients.Wait()); err != nil {
		return 0, err
	}
	var longest time.Duration
	for _, p := range probes {
		longest = max(longest, p.longest())
	}
	return longest, l.mend(ctx, leader)
}

// leader waits until one of the team leads, and returns it.
func (t *team) leader(ctx context.Context) (*local.Controller, error) {
	if len(t.replicas) == 1 {
		return t.replicas[0], nil
	}
	var leader *local.Controller
	err := harness.Eventually(ctx, patience, "a replica to lead", func(ctx context.Context) error {
		for _, replica := range t.replicas {
			leads, err := replica.Leads(ctx)
			if err != nil {
				return err
			}
			if leads {
				leader = replica
				return nil
			}
		}
		return errors.New("none does")
	})
	return leader, err
}

// probe is a client that claims, each its next claim when the last is answered.
type probe struct {
	tenant  *tenant.Tenant
	warm    chan struct{} // closed when it has seen enough answers to begin
	answers []time.Time
}

// run claims until enough is answered after the leader was lost.
func (p *probe) run(ctx context.Context, lost <-chan struct{}) error {
	for after := 0; after < answersBeside; {
		if _, err := p.tenant.Claim(ctx, tenant.NewName(), tenant.Bound, wanted()...); err != nil {
			return err
		}
		p.answers = append(p.answers, time.Now())
		if len(p.answers) == answersBeside {
			close(p.warm)
		}
		select {
		case <-lost:
			after++
		default:
		}
	}
	return nil
}

// longest is the longest time between two answers.
func (p *probe) longest() time.Duration {
	var longest time.Duration
	for i := 1; i < len(p.answers); i++ {
		longest = max(longest, p.answers[i].Sub(p.answers[i-1]))
	}
	return longest
}
