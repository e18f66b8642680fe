package consumer

import (
	"strings"
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

// looksPerEndpoint is how many workers check claims of one endpoint at a time. Four workers
// reach looksPerSecond if a check takes 80 ms. The other workers are free for the other
// endpoints while this endpoint does not answer.
const looksPerEndpoint = 4

// gates limit how many claims of each endpoint are checked at the same time. A request above
// the limit is kept, and requeued when a check ends; workspaces take turns there. The zero
// value is ready; safe for concurrent use.
type gates struct {
	mu         sync.Mutex
	byEndpoint map[string]*gate
}

// gate is that of one endpoint.
type gate struct {
	looks int                                           // in progress
	kept  workqueue.TypedInterface[mcreconcile.Request] // above the limit
}

// enter reports whether the check may begin. If not, the request is kept.
func (g *gates) enter(endpoint string, req mcreconcile.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.byEndpoint[endpoint]
	if at == nil {
		if g.byEndpoint == nil {
			g.byEndpoint = map[string]*gate{}
		}
		at = &gate{kept: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[mcreconcile.Request]{Queue: inbox.NewTurns()})}
		g.byEndpoint[endpoint] = at
	}
	if at.looks == looksPerEndpoint {
		at.kept.Add(req)
		return false
	}
	at.looks++
	return true
}

// leave ends a check.
func (g *gates) leave(endpoint string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byEndpoint[endpoint].looks--
}

// next removes the kept requests that may begin now. A request may not come back to enter,
// because its workspace is gone: the caller then calls next again, for the other requests.
func (g *gates) next() []mcreconcile.Request {
	g.mu.Lock()
	defer g.mu.Unlock()
	var found []mcreconcile.Request
	for endpoint, at := range g.byEndpoint {
		for n := at.looks; n < looksPerEndpoint && at.kept.Len() > 0; n++ {
			req, _ := at.kept.Get()
			at.kept.Done(req)
			found = append(found, req)
		}
		if at.looks == 0 && at.kept.Len() == 0 {
			delete(g.byEndpoint, endpoint)
		}
	}
	return found
}

// endpointOf is the URL that the workspaces of an endpoint have in common.
func endpointOf(cl cluster.Cluster) string {
	url, _, _ := strings.Cut(cl.GetConfig().Host, "/clusters/")
	return url
}
