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
	// manyReserved is from how many unconfirmed reservations on the alert IPAMReservationsStay looks at them, too.
	manyReserved = 50
	// reservedInterval is longer than a reservation lasts whose CREATE has failed once.
	reservedInterval = 2 * time.Minute
	topReserved      = 5
)

// reservations logs which workspaces have most of the unconfirmed reservations, each time that there are many at two
// looks in a row. A manager runs it, on the leader.
type reservations struct {
	count func() map[ledger.ClusterName]int
	names interface {
		Workspace(ledger.ClusterName) directory.Workspace
	}
	clock clock.WithTicker

	many bool // at the last look
}

// NeedLeaderElection says that one replica looks.
func (r *reservations) NeedLeaderElection() bool { return true }

// Start looks until the context ends.
func (r *reservations) Start(ctx context.Context) error {
	ticker := r.clock.NewTicker(reservedInterval)
	defer ticker.Stop()
	for {
		r.look(ctx)
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *reservations) look(ctx context.Context) {
	counts, total := r.count(), 0
	for _, n := range counts {
		total += n
	}
	before := r.many
	if r.many = total >= manyReserved; !r.many || !before {
		return
	}
	log.FromContext(ctx).Info("many blocks stay reserved for CREATEs that nobody confirms: ipam-controller history --reserved lists them",
		"reserved", total, "workspaces", r.top(counts))
}

// top names the workspaces with the most reservations, and how many each has.
func (r *reservations) top(counts map[ledger.ClusterName]int) string {
	clusters := slices.SortedFunc(maps.Keys(counts), func(a, b ledger.ClusterName) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	clusters = clusters[:min(len(clusters), topReserved)]
	top := make([]string, 0, len(clusters))
	for _, c := range clusters {
		top = append(top, fmt.Sprintf("%s: %d", cmp.Or(r.names.Workspace(c).Path, string(c)), counts[c]))
	}
	return strings.Join(top, ", ")
}
