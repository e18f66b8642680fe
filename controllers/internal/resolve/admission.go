package resolve

import (
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// sharing is the part of a class or pool that decides which workspaces may use it.
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
// A workspace whose path is not known yet is in no list by its path.
func (s sharing) admits(who directory.Workspace) bool {
	if who.Cluster == s.owner.Cluster {
		return true
	}
	switch s.visibility {
	case ipamv1alpha1.VisibilityPlatform:
		return len(s.consumers) == 0 || listed(s.consumers, who)
	case ipamv1alpha1.VisibilityShared:
		return listed(s.consumers, who)
	default:
		return false
	}
}

// Admits reports whether a workspace may claim from a pool of the owner's workspace.
func Admits(pool *ipamv1alpha1.IPPool, owner, who directory.Workspace) bool {
	return sharing{owner, pool.Spec.Visibility, pool.Spec.Consumers}.admits(who)
}

// listed reports whether a workspace is in a list of consumers: by its exact path, by a subtree that contains it, or by
// the ID of its logical cluster. An ID has no colon, and so is never taken for a path, which the owner of a workspace
// can forge.
func listed(consumers []ipamv1alpha1.Consumer, who directory.Workspace) bool {
	for _, c := range consumers {
		entry := string(c)
		above, subtree := strings.CutSuffix(entry, ":*")
		switch {
		case !strings.Contains(entry, ":"):
			if entry != "" && entry == string(who.Cluster) {
				return true
			}
		case subtree && strings.HasPrefix(who.Path, above+":"), entry == who.Path:
			return true
		}
	}
	return false
}
