package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/test/framework/retry"
)

const (
	// leastRound is how short a round may be: kcp alone takes half of it to start.
	leastRound = time.Minute
	// looks is how often each process is measured in a calm, and lookEvery the time between.
	looks     = 5
	lookEvery = 2 * time.Second
)

// calm is a time in which nothing happens, and what the processes were like.
type calm struct {
	from, to time.Time
	claims   int
	ended    int                  // claims that were bound, and are no more
	readings map[string][]reading // by process
}

// play goes through all rounds, and deletes everything. Once all rounds are done, that not
// everything goes is a finding like others.
func (s *stage) play(ctx context.Context) (*findings, error) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	s.Say("every tenant makes its %d claims", s.hold)
	s.record.began = time.Now()
	if err := s.levels(ctx, s.hold); err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.watch(watching) })
	group.Go(func() error { return s.revive(watching) })
	group.Go(func() error {
		defer stop()
		return s.through(ctx)
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) || err != nil && len(s.record.calms) < s.rounds {
		return nil, err
	}
	given, reused, _ := s.history.Counts()
	found := &findings{options: s.options, record: s.record, wrong: s.history.Problems(), given: given, reused: reused}
	if err != nil {
		found.left = err.Error()
	}
	return found, nil
}

// through is every round, and the end.
func (s *stage) through(ctx context.Context) error {
	fate := newFate(s)
	for i := range s.rounds {
		end := s.record.began.Add(time.Duration(i+1) * s.round())
		if err := s.busy(ctx, fate, end.Add(-s.calmFor())); err != nil {
			return err
		}
		if err := s.calm(ctx, end); err != nil {
			return fmt.Errorf("calm %d: %w", i+1, err)
		}
	}
	return s.clear(ctx)
}

// calmFor is how long a calm is to be: the etcd has to compact the history of what was before.
func (o *options) calmFor() time.Duration { return 2*o.keep + looks*lookEvery }

// busy has the tenants at work and things struck down, until it is time. The first
// tenants queue for the scarce pool, too, twice as many as it has room for.
func (s *stage) busy(ctx context.Context, fate *fate, until time.Time) error {
	working, stop := context.WithDeadline(ctx, until)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	for i, t := range s.tenants {
		group.Go(func() error { return t.work(working, ctx) })
		if i < 2*scarceRoom {
			random := rand.New(rand.NewPCG(s.seed, 1<<33+uint64(i))) //nolint:gosec // it has to be repeatable
			group.Go(func() error { return t.queue(working, ctx, random) })
		}
	}
	group.Go(func() error { return fate.run(working, ctx) })
	return group.Wait()
}

// levels has every tenant hold so many claims.
func (s *stage) levels(ctx context.Context, hold int) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, t := range s.tenants {
		group.Go(func() error { return t.level(ctx, hold) })
	}
	return group.Wait()
}

// calm waits until all is in order and measures, and lasts until it is time at least.
func (s *stage) calm(ctx context.Context, until time.Time) error {
	if err := s.levels(ctx, s.hold); err != nil {
		return err
	}
	c := calm{from: time.Now(), claims: s.hold * len(s.tenants), readings: map[string][]reading{}}
	if err := s.settled(ctx); err != nil {
		return err
	}
	if err := s.compacted(ctx); err != nil {
		return err
	}
	retry.Pause(ctx, time.Until(until.Add(-looks*lookEvery)))
	for range looks {
		for _, p := range s.processes() {
			err := retry.Do(ctx, patience, "look at "+p.name, func(ctx context.Context) error {
				now, err := p.look(ctx)
				if err == nil {
					c.readings[p.name] = append(c.readings[p.name], now)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		retry.Pause(ctx, lookEvery)
	}
	c.to = time.Now()
	given, reused, live := s.history.Counts()
	c.ended = given - live
	s.record.calm(c)
	s.Say("calm with %d claims held, all verified; %d were bound so far, %d of them to the blocks of former ones", live, given, reused)
	return nil
}
