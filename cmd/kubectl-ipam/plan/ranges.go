package plan

import ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"

// ranges are the pools of a workspace that the system has made, by name. above has the pool from which each is carved.
// If claims of the plan hold such a pool, and all those above it that the system has made, it comes back with its
// block. Any other is made again by the next claim, perhaps elsewhere.
type ranges struct {
	above   map[string]*ipamv1alpha1.PoolRef
	holders map[string]bool
}

func rangesOf(pools []ipamv1alpha1.IPPool, claims []ipamv1alpha1.IPClaim) ranges {
	r := ranges{map[string]*ipamv1alpha1.PoolRef{}, map[string]bool{}}
	for i := range pools {
		if pools[i].Spec.ClassRef != nil {
			r.above[pools[i].Name] = pools[i].Parent()
		}
	}
	for i := range claims {
		if c := &claims[i]; c.Spec.Target == ipamv1alpha1.TargetScopeRange && c.Status.AllocatedCIDR != "" &&
			c.Status.PoolRef != nil && c.Status.PoolRef.ProjectRef == nil {
			r.holders[c.Status.PoolRef.Name] = true
		}
	}
	return r
}

// held reports whether claims of the plan hold a pool that the system has made, and all pools above it that the system
// has made.
func (r ranges) held(name string) bool {
	for range len(r.above) {
		above, made := r.above[name]
		switch {
		case !made || !r.holders[name]:
			return false
		case above == nil || above.ProjectRef != nil:
			return true
		}
		if _, made := r.above[above.Name]; !made {
			return true
		}
		name = above.Name
	}
	return false
}
