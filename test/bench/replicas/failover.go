package replicas

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/bench/tenant"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// loss is a way to lose the active replica, and what that costs.
type loss struct {
	name string
	team *team
	lose func(context.Context, *local.Controller) error
	mend func(context.Context, *local.Controller) error // afterwards, so that the team is complete again
	gaps []gap
}

// gap is how many seconds the clients had to do without answers and without records.
type gap struct {
	answer float64 // without the answer in the response to CREATE
	record float64 // without an IPAllocation, which the active replica's reconcile writes
}

// losses returns all losses that are measured.
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
				// The replica notices that it has lost the lease, and ends.
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

// fail makes each loss happen in turns, while claims are held.
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
			if err := l.once(ctx); err != nil {
				return nil, fmt.Errorf("%s: %w", l.name, err)
			}
			s.Say("loss %d of %d, %s: %.2f s without an answer, %.2f s without a record", n+1, s.failovers, l.name, l.gaps[n].answer, l.gaps[n].record)
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

// once loses the active replica while a client of each tenant makes claims. It notes the longest time without an
// answer, and the longest time without a record, that any client saw from then on.
func (l *loss) once(ctx context.Context) error {
	leader, err := l.team.leader(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	probes := make([]*probe, len(l.team.tenants))
	clients, working := errgroup.WithContext(ctx)
	for i, one := range l.team.tenants {
		probes[i] = &probe{tenant: one, stop: make(chan struct{})}
		clients.Go(func() error { return probes[i].run(working) })
	}
	if err := warm(working, probes, time.Time{}); err != nil {
		return errors.Join(err, clients.Wait())
	}
	lost := time.Now()
	err = l.lose(ctx, leader)
	err = errors.Join(err, warm(working, probes, time.Now()))
	for _, p := range probes {
		close(p.stop)
	}
	if err := errors.Join(err, clients.Wait()); err != nil {
		return err
	}
	var longest gap
	for _, p := range probes {
		_, answer := p.answers.after(lost)
		_, record := p.records.after(lost)
		longest.answer, longest.record = max(longest.answer, answer), max(longest.record, record)
	}
	l.gaps = append(l.gaps, longest)
	return l.mend(ctx, leader)
}

// leader waits until a replica of the team leads, and returns it.
func (t *team) leader(ctx context.Context) (*local.Controller, error) {
	if len(t.replicas) == 1 {
		return t.replicas[0], nil
	}
	var leader *local.Controller
	err := retry.Do(ctx, patience, "wait for a replica to lead", func(ctx context.Context) error {
		for _, replica := range t.replicas {
			if !replica.Running() { // it was deposed, as kcp did not renew its lease in time: a kubelet would start it again
				if err := replica.Start(ctx); err != nil {
					return err
				}
			}
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
