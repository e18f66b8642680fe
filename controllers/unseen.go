package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

const (
	// manyUnseen is the least number of CREATEs to log. The alert IPAMAnswersUnseen uses the same number.
	manyUnseen = 50
	// unseenInterval is longer than the block of a failed CREATE is kept.
	unseenInterval = 2 * time.Minute
	topUnseen      = 5
)

// unseen logs which workspaces have most of the CREATEs that were answered, and whose claims nobody has seen. It logs
// when there are many of them at two looks in a row. A manager runs it, on the leader.
type unseen struct {
	count func() map[ledger.ClusterName]int
	names interface {
		Workspace(ledger.ClusterName) directory.Workspace
	}
	clock clock.WithTicker

	many bool // at the last look there were many
}

// NeedLeaderElection says that one replica looks.
func (u *unseen) NeedLeaderElection() bool { return true }

// Start looks until the context ends.
func (u *unseen) Start(ctx context.Context) error {
	ticker := u.clock.NewTicker(unseenInterval)
	defer ticker.Stop()
	for {
		u.look(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

func (u *unseen) look(ctx context.Context) {
	counts, total := u.count(), 0
	for _, n := range counts {
		total += n
	}
	before := u.many
	if u.many = total >= manyUnseen; !u.many || !before {
		return
	}
	log.FromContext(ctx).Info("many CREATEs were answered with blocks whose claims are not there",
		"unseen", total, "workspaces", u.top(counts))
}

// top names the workspaces with the most such CREATEs, and how many each has.
func (u *unseen) top(counts map[ledger.ClusterName]int) string {
	clusters := slices.SortedFunc(maps.Keys(counts), func(a, b ledger.ClusterName) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	clusters = clusters[:min(len(clusters), topUnseen)]
	top := make([]string, 0, len(clusters))
	for _, c := range clusters {
		top = append(top, fmt.Sprintf("%s: %d", cmp.Or(u.names.Workspace(c).Path, string(c)), counts[c]))
	}
	return strings.Join(top, ", ")
}
