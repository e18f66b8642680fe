package resolve

import (
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/directory"
)

// sharing is what an object says about who may use it.
type sharing struct {
	owner      directory.Workspace
	visibility ipamv1alpha1.Visibility
	consumers  []ipamv1alpha1.Consumer
}

// admits decides whether a workspace may use an object:
//
//	visibility   own workspace   others
//	consumer     yes             no
//	platform     yes             yes; with consumers only those listed
//	shared       yes             only those listed in consumers
//
// A workspace whose path is not known yet is in no list.
func (s sharing) admits(who directory.Workspace) bool {
	if who.Cluster == s.owner.Cluster {
		return true
	}
	switch s.visibility {
	case ipamv1alpha1.VisibilityPlatform:
		return len(s.consumers) == 0 || listed(s.consumers, who.Path)
	case ipamv1alpha1.VisibilityShared:
		return listed(s.consumers, who.Path)
	default:
		return false
	}
}

// listed reports whether a workspace path is in a list of consumers: exactly,
// or below the subtree that an entry ending in ":*" names.
func listed(consumers []ipamv1alpha1.Consumer, path string) bool {
	if path == "" {
		return false
	}
	for _, c := range consumers {
		subtree, ok := strings.CutSuffix(string(c), "*")
		if string(c) == path || ok && strings.HasPrefix(path, subtree) {
			return true
		}
	}
	return false
}
