package claim

import (
	"fmt"
	"time"

	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"
)

// A claim waits at each pool that could serve it, and each such place takes memory of the leader. A workspace has a bounded
// number of them. Claims beyond it wait at no pool, and look again: a workspace with many of them has a few looks a second.

const (
	// askAgain is after how long a claim looks again, at least, that more pools could serve than it waits at.
	askAgain = time.Minute
	// apart is the time between two looks of claims of one workspace that wait at no pool.
	apart = time.Second / 4
)

// places are the places of one workspace.
type places struct {
	taken int
	over  int // claims that got none, as there are too many
}

// occupy notes at how many pools a claim waits that was entered. Its workspace may have most places, of 0 any number. If
// those are too many, the claim has none, and over is how many claims of the workspace have none so; else it is 0.
func (w *waiting) occupy(claim mcreconcile.Request, at, most int) (over int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	as, entered := w.claims[claim]
	if !entered {
		return 0
	}
	w.count(claim, as, -1)
	if as.at, as.over = at, most > 0 && w.places[claim.ClusterName].taken+at > most; as.over {
		as.at = 0
	}
	w.claims[claim] = as
	w.count(claim, as, 1)
	if !as.over {
		return 0
	}
	return w.places[claim.ClusterName].over
}

// count adds the places of a claim to those of its workspace, or takes them from there. The caller holds mu.
func (w *waiting) count(claim mcreconcile.Request, as wait, times int) {
	of := w.places[claim.ClusterName]
	of.taken += times * as.at
	if as.over {
		of.over += times
	}
	if w.places[claim.ClusterName] = of; of == (places{}) {
		delete(w.places, claim.ClusterName)
	}
}

// untilTurn is after how long a claim looks again that has no place, as do so many of its workspace.
func untilTurn(over int) time.Duration { return max(askAgain, time.Duration(over)*apart) }

// crowded says that a claim waits at no pool, and why it would.
func crowded(most int, why string) string {
	return fmt.Sprintf("the claims of this workspace wait at %d pools, each pool counted for each claim, which is as many as they may: "+
		"this one waits at none, and looks again from time to time; delete claims, or name a pool in each; %s", most, why)
}
