package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/reach"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// found is a pool, and what the caller sees beside it.
type found struct {
	view  *reach.View
	pools []ipamv1alpha1.IPPool
	// in is the workspace of the pool; empty for the current one.
	in, name string
	// pool is nil if the caller does not see it.
	pool *ipamv1alpha1.IPPool
}

// find looks for the pool of that name in a workspace, which is empty for the current one.
func find(ctx context.Context, s *session.Session, workspace, name string) (*found, error) {
	r, err := reach.Of(ctx, s)
	if err != nil {
		return nil, err
	}
	f := &found{view: r, in: workspace, name: name}
	if f.in == r.Path {
		f.in = ""
	}
	if f.pools, err = r.Pools(ctx); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(f.pools, func(p ipamv1alpha1.IPPool) bool { return p.Name == name && r.Workspace(&p) == f.in })
	if at >= 0 {
		f.pool = &f.pools[at]
	}
	return f, nil
}

// held reads the blocks of the pool that the caller sees. For a pool of the current workspace, it waits until
// the figures agree with these blocks.
func (f *found) held(ctx context.Context) ([]space.Holding, error) {
	allocations, err := f.view.Allocations(ctx)
	if err != nil {
		return nil, err
	}
	held := f.view.Holdings(f.pools, allocations)[reach.Key{Workspace: f.in, Name: f.name}]
	if f.pool == nil || f.in != "" {
		return held, nil
	}
	return held, settled(ctx, f.view, f.pool, held, func(unseen int) bool { return unseen == 0 })
}

// lag is more than the figures of a pool lag behind its blocks.
const lag = 750 * time.Millisecond

// settled waits until the figures of a pool agree with the blocks that are shown, as long as
// they may lag behind. agrees is told the sign of the number of addresses that are counted
// beyond these blocks: others may hold more.
func settled(ctx context.Context, c client.WithWatch, pool *ipamv1alpha1.IPPool, held []space.Holding, agrees func(unseen int) bool) error {
	if pool.Status.Capacity == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, lag)
	defer cancel()
	err := ipamclient.Until(limited, c, pool, func() bool {
		shown, err := space.Of(pool, held)
		return err != nil || pool.Status.Capacity == nil || agrees(shown.Unseen(pool.Status.Capacity).Sign())
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return exit.IgnoreUnseen(err)
}
