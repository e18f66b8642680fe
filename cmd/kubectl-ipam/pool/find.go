package pool

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// find returns a pool with the blocks that the caller sees. An empty workspace is the current one.
func find(ctx context.Context, s *session.Session, workspace, name string) (*session.View, *space.Pool, error) {
	r, err := s.View(ctx)
	if err != nil {
		return nil, nil, err
	}
	if workspace == r.Path {
		workspace = ""
	}
	pools, err := r.Pools(ctx)
	if err != nil {
		return nil, nil, err
	}
	allocations, err := r.Allocations(ctx)
	if exit.IgnoreUnseen(err) != nil {
		return nil, nil, err
	}
	for _, pool := range r.Visible(pools, allocations) {
		if pool.Name == name && pool.Workspace == workspace {
			return r, pool, nil
		}
	}
	return r, &space.Pool{Name: name, Workspace: workspace}, nil
}

// lag is longer than the figures of a pool lag behind its blocks.
const lag = 750 * time.Millisecond

// settled waits until the figures of a pool agree with the blocks that are shown, or until lag is over. It does so only
// for pools of the current workspace. agrees gets the sign of the number of addresses that the figures count beyond
// these blocks. More may be right, because others may hold blocks that are not shown.
func settled(ctx context.Context, c client.WithWatch, p *space.Pool, agrees func(unseen int) bool) error {
	pool := p.Object
	if pool == nil || p.Workspace != "" || pool.Status.Capacity == nil {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, lag)
	defer cancel()
	err := ipamclient.Until(limited, c, pool, func() bool {
		shown := p.Space()
		return !shown.Pool.IsValid() || pool.Status.Capacity == nil || agrees(shown.Unseen(pool.Status.Capacity).Sign())
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return exit.IgnoreUnseen(err)
}

// exactly returns true if the figures count the shown blocks and no others.
func exactly(unseen int) bool { return unseen == 0 }
