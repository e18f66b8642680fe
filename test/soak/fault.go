package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kcp-ipam/ipam/test/chaos/etcd"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/framework/retry"
)

// Kinds of what is struck down.
const (
	kindReplica = "replica"
	kindMember  = "etcd member"
	kindKCP     = "kcp"
)

// victim is something that is struck down, and started again on what it has stored.
type victim struct {
	kind, name string
	kill, stop func() error
	start      func(context.Context) error // returns when it is ready
}

// strike is one fault.
type strike struct {
	at     time.Time
	victim victim
	killed bool
	took   time.Duration // until it was ready again
}

// victims are all there are but the first replica, which lives through everything.
func (s *stage) victims() []victim {
	list := []victim{{kindKCP, "kcp", s.KCP.Kill, s.KCP.Stop, s.KCP.Start}}
	for i, member := range s.ledger.Members {
		list = append(list, victim{kindMember, memberName(i), member.Kill, member.Stop, func(ctx context.Context) error {
			return restart(ctx, member)
		}})
	}
	for i, replica := range s.replicas[1:] {
		list = append(list, victim{kindReplica, replicaName(i + 1), replica.Kill, replica.Stop, replica.Start})
	}
	return list
}

func replicaName(i int) string { return fmt.Sprint("replica-", i+1) }

func memberName(i int) string { return fmt.Sprint("etcd-", i+1) }

// restart starts a member and waits until it answers, so that no second one is struck
// before.
func restart(ctx context.Context, member *etcd.Member) (err error) {
	if _, err := member.Start(); err != nil {
		return err
	}
	client, err := etcd.Dial(member.Addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return retry.Do(ctx, patience, "an answer of "+member.Name, func(ctx context.Context) error {
		_, err := client.Get(ctx, "ready")
		return err
	})
}

// fate strikes one after another, in turns of a drawn order, from round to round.
type fate struct {
	*stage
	random  *rand.Rand
	victims []victim
	turn    []int
}

func newFate(s *stage) *fate {
	return &fate{stage: s, random: rand.New(rand.NewPCG(s.seed, 1<<32)), victims: s.victims()} //nolint:gosec // it has to be repeatable
}

// run strikes while ctx lasts. What it has struck down it starts again.
func (f *fate) run(ctx, whole context.Context) error {
	for retry.Pause(ctx, drawn(f.random, 3*time.Second, 10*time.Second)) {
		if len(f.turn) == 0 {
			f.turn = f.random.Perm(len(f.victims))
		}
		v := f.victims[f.turn[0]]
		f.turn = f.turn[1:]
		if err := f.strike(whole, v, f.random.IntN(2) == 0, drawn(f.random, 0, 2*time.Second)); err != nil {
			return fmt.Errorf("strike %s: %w", v.name, err)
		}
	}
	return nil
}

// strike ends one for a while.
func (f *fate) strike(ctx context.Context, v victim, kill bool, away time.Duration) error {
	f.hands.Lock()
	defer f.hands.Unlock()
	began, end, how := time.Now(), v.stop, "SIGTERM"
	if kill {
		end, how = v.kill, "SIGKILL"
	}
	if err := end(); err != nil {
		return err
	}
	retry.Pause(ctx, away)
	if err := v.start(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	f.record.struck(strike{began, v, kill, took})
	f.Say("%s of %s: ready again after %.1f s", how, v.name, took.Seconds())
	return nil
}

// revive starts replicas again that have ended by themselves, while ctx lasts. One that
// leads does so when it loses its lease; whatever runs it is to start it again.
func (s *stage) revive(ctx context.Context) error {
	for retry.Pause(ctx, time.Second) {
		for i, replica := range s.replicas {
			if err := s.look(ctx, replicaName(i), replica); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

func (s *stage) look(ctx context.Context, name string, replica *local.Controller) error {
	s.hands.Lock()
	defer s.hands.Unlock()
	if replica.Running() {
		return nil
	}
	s.record.ended(name)
	s.Say("%s has ended by itself, see %s", name, replica.Log())
	return replica.Start(ctx)
}
