package live

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Census says which workspaces have a binding to the export, by complete lists of all endpoints. An object is gone if
// it was there before, and two censuses, with time between them, lack its workspace.
type Census struct {
	// Bound has the bound workspaces, and the platform.
	Bound map[ledger.ClusterName]bool
	// Endpoints is how many endpoints the export has. If there are none, the census proves something only for a workspace
	// whose binding was seen to be deleted.
	Endpoints int
	// Since is when the endpoint slice that lists the endpoints was made. A shard that has been away since then has not
	// entered its endpoint in that slice. So the holder of an older block may be on a shard that the slice never listed.
	Since time.Time
}

// Census lists the bound workspaces, by reads after the call. ok is false if some may be missing: the endpoint slice
// may lack endpoints, there is no slice, or the export shows other objects than the ledger knows. The cost grows with
// the number of workspaces, not with the number of objects to check.
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
