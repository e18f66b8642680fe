// Package sweep finds what missed events have left behind: blocks in the ledger
// whose claim the caches do not show. What it finds are hints for package
// release, which asks live before it frees anything.
package sweep

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/catalog"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// page is how many blocks are read from the ledger at a time.
const page = 1000

// Ledger is what a sweep reads.
type Ledger interface {
	List(ctx context.Context, opts allocator.ListOptions) (allocator.Page, error)
}

// Releases takes the hints.
type Releases interface {
	Suspect(h allocator.Holder)
}

// Sweeper looks over the ledger from time to time. Run it in a manager; only
// the leader does.
type Sweeper struct {
	Ledger    Ledger
	Releases  Releases
	Clusters  catalog.Clusters
	Directory *directory.Directory
	// Departed carries the workspaces whose binding was seen to go: their
	// blocks are looked at without waiting for the interval.
	Departed <-chan allocator.ClusterName
	// Interval between two sweeps, jittered by a fifth. Default 30 s.
	Interval time.Duration
}

var _ manager.LeaderElectionRunnable = (*Sweeper)(nil)

// NeedLeaderElection says that one replica sweeps.
func (s *Sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until the context ends.
func (s *Sweeper) Start(ctx context.Context) error {
	interval := s.Interval
	if interval == 0 {
		interval = 30 * time.Second
	}
	for {
		timer := time.NewTimer(wait.Jitter(interval, 0.2))
		var only func(allocator.Block) bool
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
			only = func(b allocator.Block) bool { return !s.held(ctx, b) }
		case cluster := <-s.Departed:
			timer.Stop()
			only = func(b allocator.Block) bool { return b.Holder.Cluster == cluster }
		}
		if err := s.sweep(ctx, only); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "sweep")
		}
	}
}

// sweep hints at every block that is suspicious.
func (s *Sweeper) sweep(ctx context.Context, suspicious func(allocator.Block) bool) error {
	opts := allocator.ListOptions{Limit: page}
	for {
		blocks, err := s.Ledger.List(ctx, opts)
		if err != nil {
			return fmt.Errorf("list blocks: %w", err)
		}
		for _, b := range blocks.Blocks {
			if suspicious(b) {
				s.Releases.Suspect(b.Holder)
			}
		}
		if opts.Continue = blocks.Continue; opts.Continue == "" {
			return nil
		}
	}
}

// held reports whether the cache shows the holder of a block: its claim or
// child pool, or for a retained block its record. Doubt counts as not held: the
// hint is confirmed live.
func (s *Sweeper) held(ctx context.Context, b allocator.Block) bool {
	cl, err := s.Clusters.GetCluster(ctx, s.Directory.Engaged(b.Holder.Cluster))
	if err != nil {
		return false
	}
	obj, key := holder(b)
	if err := cl.GetCache().Get(ctx, key, obj); err != nil {
		return !apierrors.IsNotFound(err)
	}
	return b.State == allocator.Retained || obj.GetUID() == types.UID(b.Holder.Claim)
}

func holder(b allocator.Block) (client.Object, client.ObjectKey) {
	key := client.ObjectKey{Namespace: b.Holder.Namespace, Name: b.Holder.Name}
	if b.Holder.Namespace == "" {
		return &ipamv1alpha1.IPPool{}, key
	}
	if b.State == allocator.Retained {
		key.Name = ipamv1alpha1.AllocationName(key.Namespace, key.Name)
		return &ipamv1alpha1.IPAllocation{}, key
	}
	return &ipamv1alpha1.IPClaim{}, key
}
