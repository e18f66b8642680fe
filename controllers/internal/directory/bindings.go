package directory

import (
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// binding has the known facts of an APIBinding.
type binding struct {
	uid      types.UID
	endpoint string // the endpoint that shows it
	serves   bool
	leaving  bool // it is being deleted
}

// bindings are the APIBindings of one workspace. There may be several: kcp accepts
// a second one to the same export, and does not bind it while the first is there.
type bindings struct {
	known []binding // each UID once
	went  bool      // a binding that served was seen to be deleted, and none has served since
}

// put adds a binding, or replaces the facts that were known of it.
func (b *bindings) put(now binding) {
	if i := b.find(now.uid); i >= 0 {
		b.known[i] = now
		return
	}
	b.known = append(b.known, now)
}

// find returns the index of a binding; negative for none.
func (b bindings) find(uid types.UID) int {
	return slices.IndexFunc(b.known, func(known binding) bool { return known.uid == uid })
}

// standing says how a workspace is bound.
type standing int

const (
	unserved standing = iota // no binding serves it
	served
	leaving // all bindings that serve it are being deleted
)

// standing returns how the workspace is bound. Only the bindings that serve the workspace count.
func (b bindings) standing() standing {
	now := unserved
	for _, known := range b.known {
		switch {
		case known.serves && !known.leaving:
			return served
		case known.serves:
			now = leaving
		}
	}
	return now
}

// Serves reports whether an APIBinding serves its workspace, because kcp has bound it. A binding that is being deleted
// still serves.
func Serves(b *apisv1alpha2.APIBinding) bool {
	return conditions.IsTrue(b, conditionsv1alpha1.ReadyCondition)
}

// Leaves reports whether the workspace is giving up the export: all bindings that serve it are being deleted.
func (d *Directory) Leaves(cluster ledger.ClusterName) bool {
	return d.standing(cluster) == leaving
}

// Bound reports whether a binding serves the workspace.
func (d *Directory) Bound(cluster ledger.ClusterName) bool {
	return d.standing(cluster) != unserved
}

// standing returns how a workspace is bound now.
func (d *Directory) standing(cluster ledger.ClusterName) standing {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bound[cluster].standing()
}

// Endpoint returns an endpoint that shows a binding which serves the workspace and is not being deleted.
func (d *Directory) Endpoint(cluster ledger.ClusterName) (url string, ok bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, known := range d.bound[cluster].known {
		if known.serves && !known.leaving {
			return known.endpoint, true
		}
	}
	return "", false
}

// Served reports whether this endpoint shows a binding that serves the workspace.
func (d *Directory) Served(endpoint string, cluster ledger.ClusterName) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.ContainsFunc(d.bound[cluster].known, func(known binding) bool {
		return known.serves && known.endpoint == endpoint
	})
}

// Seen learns a new or changed binding that an endpoint shows.
func (d *Directory) Seen(endpoint string, b *apisv1alpha2.APIBinding) {
	cluster := ledger.ClusterName(logicalcluster.From(b))
	d.telling.Lock()
	defer d.telling.Unlock()
	before, now := d.note(cluster, binding{
		uid: b.UID, endpoint: endpoint, serves: Serves(b), leaving: !b.DeletionTimestamp.IsZero(),
	})
	if path := b.Annotations[core.LogicalClusterPathAnnotationKey]; path != "" && Serves(b) {
		d.show(cluster, path)
	}
	switch {
	case before == now, d.observer == nil:
	case now == served:
		d.observer.Arrived(cluster)
	case now == leaving:
		d.observer.Leaving(cluster)
	}
}

// remember notes that a workspace has departed while there is no observer. Observe tells the next observer.
func (d *Directory) remember(cluster ledger.ClusterName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.departed == nil {
		d.departed = map[ledger.ClusterName]struct{}{}
	}
	d.departed[cluster] = struct{}{}
}

// note notes the facts of a binding, and returns how its workspace was bound before, and how it is now.
func (d *Directory) note(cluster ledger.ClusterName, b binding) (before, now standing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of := d.bound[cluster]
	before = of.standing()
	of.put(b)
	if now = of.standing(); now == served {
		of.went = false
		delete(d.departed, cluster)
	}
	if now != unserved {
		d.reveal(cluster)
	}
	d.bound[cluster] = of
	return before, now
}

// Gone forgets a binding whose deletion was seen.
func (d *Directory) Gone(b *apisv1alpha2.APIBinding) {
	cluster := ledger.ClusterName(logicalcluster.From(b))
	d.telling.Lock()
	defer d.telling.Unlock()
	departed := false
	last := d.drop(cluster, b.UID, func(of *bindings, known binding) {
		of.went = of.went || known.serves && known.leaving
		departed = of.went && of.standing() == unserved
	})
	if last {
		d.show(cluster, "")
	}
	switch {
	case !departed:
	case d.observer != nil:
		d.observer.Departed(cluster)
	default:
		d.remember(cluster)
	}
}

// Missed forgets a binding that a list has left out. The binding may still exist: a shard that has just started may
// list no bindings for some seconds. So the workspace keeps its path, as in [Directory.Closed].
func (d *Directory) Missed(b *apisv1alpha2.APIBinding) {
	cluster := ledger.ClusterName(logicalcluster.From(b))
	d.drop(cluster, b.UID, func(of *bindings, known binding) {
		of.went = false
		if known.serves && of.standing() == unserved {
			d.hide(cluster)
		}
	})
}

// drop forgets a binding, and reports whether it was the last of its workspace.
func (d *Directory) drop(cluster ledger.ClusterName, uid types.UID, note func(*bindings, binding)) (last bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	of, ok := d.bound[cluster]
	if !ok {
		return false
	}
	known := binding{}
	if i := of.find(uid); i >= 0 {
		known = of.known[i]
		of.known = slices.Delete(of.known, i, i+1)
	}
	note(&of, known)
	if d.bound[cluster] = of; len(of.known) > 0 {
		return false
	}
	delete(d.bound, cluster)
	return true
}

// Closed forgets the bindings that an endpoint has shown, because the endpoint is not watched any more. It returns the
// workspaces of these bindings. Each keeps its path: no other workspace may take the path of a workspace that is out of
// sight. Nobody sees when such a workspace is deleted, so call OutOfSight and Forget.
func (d *Directory) Closed(endpoint string) []ledger.ClusterName {
	d.mu.Lock()
	defer d.mu.Unlock()
	var closed []ledger.ClusterName
	for cluster, of := range d.bound {
		before, serves := len(of.known), of.standing() != unserved
		of.known = slices.DeleteFunc(of.known, func(known binding) bool { return known.endpoint == endpoint })
		if len(of.known) < before {
			closed = append(closed, cluster)
		}
		if serves && of.standing() == unserved {
			d.hide(cluster)
		}
		if d.bound[cluster] = of; len(of.known) == 0 {
			delete(d.bound, cluster)
		}
	}
	return closed
}

// OutOfSight lists the workspaces that have a path although no endpoint shows a binding of theirs any more. The value
// is the time at which an endpoint last showed the path.
func (d *Directory) OutOfSight() map[ledger.ClusterName]time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	list := map[ledger.ClusterName]time.Time{}
	for cluster, last := range d.last {
		if _, shown := d.bound[cluster]; !shown {
			list[cluster] = last
		}
	}
	return list
}

// Forget forgets the path of a workspace that is out of sight. Call it once it is certain that the workspace is bound
// nowhere. A workspace that an endpoint shows again keeps its path.
func (d *Directory) Forget(cluster ledger.ClusterName) {
	d.mu.Lock()
	path, known := d.paths[cluster]
	_, shown := d.bound[cluster]
	var told []func()
	if known && !shown && cluster != d.platform.Cluster {
		told = d.move(cluster, path, "")
	}
	d.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}
