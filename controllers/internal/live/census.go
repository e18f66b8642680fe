package live

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Census says which workspaces have a binding to the export, by complete lists of all
// endpoints. An object of a workspace that is not among them, twice with time between, is gone
// if it was there before.
type Census struct {
	// Bound are the workspaces, with the platform.
	Bound map[ledger.ClusterName]bool
	// Endpoints is how many endpoints the export has. With none, the census says something
	// only of workspaces whose binding was seen to go.
	Endpoints int
	// Since is when the endpoint slice was made that lists the endpoints. A shard that is away
	// has not entered its endpoint in a slice that was made meanwhile. So a block that is older
	// may be held on a shard that the slice never listed.
	Since time.Time
}

// Census lists the bound workspaces, after the call; ok is false if some may be missing: the
// endpoint slice may lack endpoints, or there is none. What it costs does not depend on how many
// objects are asked for, but on how many workspaces there are.
func (r *Reader) Census(ctx context.Context) (c Census, ok bool, err error) {
	if r.opts.Slice == "" {
		return Census{}, false, nil
	}
	seen, err := r.endpoints.get(ctx)
	if err != nil || seen.gap != "" {
		return Census{}, false, err
	}
	c = Census{Bound: map[ledger.ClusterName]bool{r.opts.Platform: true}, Endpoints: len(seen.urls), Since: seen.made}
	lists := make([]bindings, len(seen.urls))
	each, together := errgroup.WithContext(ctx)
	for i, endpoint := range seen.urls {
		each.Go(func() (err error) {
			lists[i], err = r.bound(together, endpoint, "*")
			return err
		})
	}
	if err := each.Wait(); err != nil {
		return Census{}, false, err
	}
	for _, list := range lists {
		for cluster := range list.clusters {
			c.Bound[cluster] = true
		}
	}
	why, err := r.Replaced(ctx)
	return c, err == nil && why == "", err
}
