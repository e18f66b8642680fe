package kcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/tenant"
)

// round is what one round has shown: how many answers there were, in a second too, how
// many milliseconds they took, and how many of processor time each.
type round struct {
	answers, rate   float64
	p50, p95, p99   float64
	controller, kcp float64
	// backlog is how many answered claims had no IPAllocation when the round was over, and
	// drained how many milliseconds later all had one.
	backlog, drained float64
	parts            []float64 // of the time of a CREATE, as parts says
}

// newRound sums up a round. It must have had an answer.
func newRound(took []time.Duration, lasted time.Duration) (round, error) {
	if len(took) == 0 {
		return round{}, errors.New("a round has seen no answer: give it more --round-seconds")
	}
	slices.Sort(took)
	at := func(q float64) float64 {
		return float64(took[int(q*float64(len(took)-1)+0.5)]) / float64(time.Millisecond)
	}
	return round{
		answers: float64(len(took)),
		rate:    float64(len(took)) / lasted.Seconds(),
		p50:     at(0.50), p95: at(0.95), p99: at(0.99),
	}, nil
}

// spend notes what the answers of the round have cost, beyond what the processes take
// doing nothing.
func (r *round) spend(before, after usage, resting idle) {
	passed := float64(after.at.Sub(before.at))
	each := func(before, after time.Duration, share float64) float64 {
		return (float64(after-before) - share*passed) / float64(time.Millisecond) / r.answers
	}
	r.controller = each(before.controller, after.controller, resting.controller)
	r.kcp = each(before.kcp, after.kcp, resting.kcp)
	r.parts = partsOf(before, after)
}

// crowd has clients claim side by side until the time is up, each its next claim when
// the last is answered.
func (s *side) crowd(ctx context.Context, k kind, clients int, during time.Duration) (round, error) {
	took, lasted, err := tenant.Crowd{Tenants: s.tenants, Clients: clients, Answered: k.answered, Options: k.options}.Claim(ctx, during)
	if err != nil {
		return round{}, err
	}
	shown, err := newRound(took, lasted)
	if err != nil {
		return round{}, err
	}
	err = s.drain(ctx, &shown)
	return shown, err
}

// drain notes how far the IPAllocations are behind the answers, and waits for them.
func (s *side) drain(ctx context.Context, shown *round) error {
	over := time.Now()
	backlog, err := tenant.Unrecorded(ctx, s.tenants)
	if err != nil || backlog == 0 {
		return err
	}
	shown.backlog = float64(backlog)
	err = harness.Eventually(ctx, patience, "every claim to have its IPAllocation", func(ctx context.Context) error {
		backlog, err := tenant.Unrecorded(ctx, s.tenants)
		if err == nil && backlog > 0 {
			err = fmt.Errorf("%d have none", backlog)
		}
		return err
	})
	shown.drained = float64(time.Since(over)) / float64(time.Millisecond)
	return err
}

// handover measures how long after the deletion of a claim the one that waits for its
// block is bound.
func (s *side) handover(ctx context.Context, during time.Duration) (round, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	t := s.tenants[0]
	holding := tenant.NewName()
	if _, err := t.Claim(ctx, holding, singleHeld.answered, singleHeld.options...); err != nil {
		return round{}, err
	}
	var took []time.Duration
	var lasted time.Duration
	for began := time.Now(); time.Since(began) < during; {
		next := tenant.NewName()
		if _, err := t.Claim(ctx, next, singleWaiting.answered, singleWaiting.options...); err != nil {
			return round{}, err
		}
		one, err := t.Hand(ctx, holding, next)
		if err != nil {
			return round{}, err
		}
		took = append(took, one)
		lasted += one
		holding = next
	}
	return newRound(took, lasted)
}
