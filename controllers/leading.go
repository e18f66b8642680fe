package controllers

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// filling is how long a new leader collects the claims that wait, at least: the workspaces
	// that it has kept from its controllers show theirs one after the other.
	filling = 5 * time.Second
	// glance is the pause between two checks of the queue.
	glance = 100 * time.Millisecond
)

// leading tells the ledger that this replica leads, and so keeps the lists of the claims that
// wait, and when these are complete. Until then other replicas take nothing where claims waited
// at the former leader.
type leading struct {
	ledger interface {
		Lead(ctx context.Context, complete <-chan struct{}) error
	}
	claims interface{ Len() int }
	coming func() bool // whether there are workspaces whose claims are yet to be queued
	clock  clock.WithTicker
}

var _ manager.LeaderElectionRunnable = (*leading)(nil)

// NeedLeaderElection says that the leader alone leads.
func (l *leading) NeedLeaderElection() bool { return true }

// Start leads until the context ends.
func (l *leading) Start(ctx context.Context) error {
	complete := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() {
		if l.filled(ctx) {
			close(complete)
		}
	})
	return l.ledger.Lead(ctx, complete)
}

// filled waits until every claim was reconciled once, as far as that can be told: after a while
// the queue is empty. It reports false if the context ends first.
func (l *leading) filled(ctx context.Context) bool {
	begun, ticker := l.clock.Now(), l.clock.NewTicker(glance)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C():
			if l.clock.Since(begun) >= filling && !l.coming() && l.claims.Len() == 0 {
				return true
			}
		}
	}
}
