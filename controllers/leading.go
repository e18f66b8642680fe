package controllers

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// leading tells the ledger that this replica leads, and where it answers.
type leading struct {
	ledger interface {
		Lead(ctx context.Context, at string) error
	}
	at string
}

var _ manager.LeaderElectionRunnable = leading{}

// NeedLeaderElection says that the leader alone leads.
func (leading) NeedLeaderElection() bool { return true }

// Start leads until the context ends.
func (l leading) Start(ctx context.Context) error { return l.ledger.Lead(ctx, l.at) }
