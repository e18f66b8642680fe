package tenants

import (
	"sync"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// engaged are the workspaces that are engaged, or about to be. The zero value is none; safe for concurrent use.
type engaged struct {
	mu      sync.RWMutex
	tenants map[multicluster.ClusterName]*tenant
}

// tenant is nil if the workspace is not engaged, and not about to be.
func (e *engaged) tenant(name multicluster.ClusterName) *tenant {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.tenants[name]
}

func (e *engaged) add(name multicluster.ClusterName, t *tenant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tenants == nil {
		e.tenants = map[multicluster.ClusterName]*tenant{}
	}
	e.tenants[name] = t
}

// take notes that the controllers have taken a workspace up.
func (e *engaged) take(t *tenant) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.taken = true
}

// taken reports whether the controllers have taken a workspace up.
func (e *engaged) taken(name multicluster.ClusterName) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	t := e.tenants[name]
	return t != nil && t.taken
}

// remove ends an engagement and returns its tenant, nil if there is none. Those it is reported to find the
// workspace gone.
func (e *engaged) remove(name multicluster.ClusterName) *tenant {
	e.mu.Lock()
	t := e.tenants[name]
	delete(e.tenants, name)
	e.mu.Unlock()
	if t != nil {
		t.cancel()
	}
	return t
}

// at lists the workspaces that are engaged through an endpoint.
func (e *engaged) at(from *endpoint) []multicluster.ClusterName {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var names []multicluster.ClusterName
	for name, t := range e.tenants {
		if t.at == from {
			names = append(names, name)
		}
	}
	return names
}
