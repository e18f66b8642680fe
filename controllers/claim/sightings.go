package claim

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sightings remember the version in which the objects of a workspace were last seen.
// So a deletion that was watched, which has a version of its own, is told from an
// object that a list left out: the same event says both. The zero value is empty.
// Safe for concurrent use.
type sightings struct {
	mu       sync.Mutex
	versions map[types.UID]string // a plain map: there is one entry for each object
}

// saw notes an object as it is now.
func (s *sightings) saw(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.versions == nil {
		s.versions = map[types.UID]string{}
	}
	s.versions[obj.GetUID()] = obj.GetResourceVersion()
}

// deleted reports whether an object that is gone was seen being deleted, and forgets it.
func (s *sightings) deleted(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, ok := s.versions[obj.GetUID()]
	delete(s.versions, obj.GetUID())
	return ok && seen != obj.GetResourceVersion()
}

// forget forgets an object that another has replaced.
func (s *sightings) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.versions, uid)
}
