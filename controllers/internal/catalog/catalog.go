// Package catalog shows the classes of the platform and the pools of every
// workspace, read from the caches. Nothing is decided from it alone: the ledger
// has the last word on every block.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// Names of the field indexes that the catalog reads by.
const (
	// ByClass finds IPPools by the classes that they back.
	ByClass = "spec.classNames"
	// ByDefault finds IPClasses that are marked as default.
	ByDefault = "default"
	// ByParent finds IPClasses by the class that they name as their parent.
	ByParent = "spec.parentClassName"
)

// Indexers of the field indexes above.
var (
	IndexPoolByClass client.IndexerFunc = func(obj client.Object) []string {
		return obj.(*ipamv1alpha1.IPPool).Spec.ClassNames
	}
	IndexClassByDefault client.IndexerFunc = func(obj client.Object) []string {
		if resolve.IsDefault(obj.(*ipamv1alpha1.IPClass)) {
			return []string{"true"}
		}
		return nil
	}
	IndexClassByParent client.IndexerFunc = func(obj client.Object) []string {
		if parent := obj.(*ipamv1alpha1.IPClass).Spec.ParentClassName; parent != "" {
			return []string{parent}
		}
		return nil
	}
)

// Clusters gives access to engaged workspaces; "" is the platform.
type Clusters interface {
	GetCluster(ctx context.Context, name multicluster.ClusterName) (cluster.Cluster, error)
}

// Rooms tells how full a pool is, and how tightly a block of a length would fit, as the ledger has it.
type Rooms interface {
	Capacity(pool ledger.PoolID) (ledger.Capacity, bool)
	Fit(pool ledger.PoolID, length int) (int, bool)
}

// Catalog reads the caches. All fields but Listed are required. It is safe for concurrent use.
type Catalog struct {
	Clusters  Clusters
	Directory *directory.Directory
	Rooms     Rooms
	// Listed reports whether all endpoints have listed their APIBindings, so that the Directory has every bound workspace.
	// Default: it is always true.
	Listed func() bool
}

// MayBeBound reports whether a tenant's workspace is bound, or may be bound although no endpoint shows it. That may be
// so while an endpoint has not listed its APIBindings, for example because its shard is away. It may also be so for a
// minute after the workspace went out of sight, unless it was seen to be unbound: a shard that has just started lists
// no bindings.
func (c *Catalog) MayBeBound(cluster ledger.ClusterName) bool {
	return c.Directory.Bound(cluster) || c.Directory.Hidden(cluster, live.Absence) || c.Listed != nil && !c.Listed()
}

// View is the catalog during one pass. Its methods return no errors. Instead, the view remembers the first one: call
// Err at the end.
type View struct {
	*Catalog
	ctx context.Context //nolint:containedctx // a view lives for one pass
	err error
}

var _ resolve.Catalog = (*View)(nil)

// View opens the catalog for one pass.
func (c *Catalog) View(ctx context.Context) *View {
	return &View{Catalog: c, ctx: ctx}
}

// Err returns the first failure. If there is one, believe nothing that the view has returned.
func (v *View) Err() error { return v.err }

// Class finds a class by name.
func (v *View) Class(name string) (*ipamv1alpha1.IPClass, bool) {
	class := &ipamv1alpha1.IPClass{}
	return class, v.get(v.platform(), name, class)
}

// Classes lists all classes.
func (v *View) Classes() []*ipamv1alpha1.IPClass {
	list := &ipamv1alpha1.IPClassList{}
	v.list(v.platform(), list)
	return pointers(list.Items)
}

// DefaultClasses lists the classes marked as default.
func (v *View) DefaultClasses() []*ipamv1alpha1.IPClass {
	list := &ipamv1alpha1.IPClassList{}
	v.list(v.platform(), list, client.MatchingFields{ByDefault: "true"})
	return pointers(list.Items)
}

// Children lists the classes that name a class as their parent.
func (v *View) Children(class string) []*ipamv1alpha1.IPClass {
	list := &ipamv1alpha1.IPClassList{}
	v.list(v.platform(), list, client.MatchingFields{ByParent: class})
	return pointers(list.Items)
}

// Pool finds a pool of a workspace by name.
func (v *View) Pool(in directory.Workspace, name string) (*ipamv1alpha1.IPPool, bool) {
	pool := &ipamv1alpha1.IPPool{}
	return pool, v.get(in, name, pool)
}

// Pools lists the pools of a workspace.
func (v *View) Pools(in directory.Workspace) []*ipamv1alpha1.IPPool {
	list := &ipamv1alpha1.IPPoolList{}
	v.list(in, list)
	return pointers(list.Items)
}

// Backing lists the pools of a workspace that name a class.
func (v *View) Backing(in directory.Workspace, class string) []*ipamv1alpha1.IPPool {
	list := &ipamv1alpha1.IPPoolList{}
	v.list(in, list, client.MatchingFields{ByClass: class})
	return pointers(list.Items)
}

// Workspace finds a workspace by its path.
func (v *View) Workspace(path string) (directory.Workspace, bool) {
	return v.Directory.Find(path)
}

// Room returns how full a pool is, and how tightly a block of this length would fit. A pool that the ledger does not
// know has no room.
func (v *View) Room(pool *ipamv1alpha1.IPPool, length int) resolve.Room {
	id := ledger.PoolID(pool.UID)
	capacity, ok := v.Rooms.Capacity(id)
	if !ok || capacity.Total.Sign() == 0 {
		return resolve.Room{Utilization: 1, Fit: -1, Largest: -1}
	}
	used, _ := new(big.Rat).SetFrac(capacity.Allocated, capacity.Total).Float64()
	fit, ok := v.Rooms.Fit(id, length)
	if !ok {
		fit = -1
	}
	return resolve.Room{Utilization: used, Fit: fit, Largest: capacity.LargestFree}
}

func (v *View) platform() directory.Workspace { return v.Directory.Platform() }

// get reads an object. If the object cannot be read whole, get fills in the fields that can be read, marks the object,
// and reports false.
func (v *View) get(in directory.Workspace, name string, into client.Object) bool {
	reader, ok := v.reader(in)
	if !ok {
		return false
	}
	err := reader.Get(v.ctx, client.ObjectKey{Name: name}, into)
	if odd, ok := errors.AsType[*decode.UnreadableError](err); ok {
		reflect.ValueOf(into).Elem().Set(reflect.ValueOf(odd.Object).Elem())
		return false // what cannot be used looks like what does not exist
	}
	if err != nil && !apierrors.IsNotFound(err) {
		v.fail(fmt.Errorf("read %T %s: %w", into, name, err))
	}
	return err == nil
}

func (v *View) list(in directory.Workspace, into client.ObjectList, opts ...client.ListOption) {
	reader, ok := v.reader(in)
	if !ok {
		return
	}
	if err := reader.List(v.ctx, into, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		v.fail(fmt.Errorf("list %T: %w", into, err))
	}
}

// reader returns the cache of a workspace; ok is false if the workspace is not engaged.
func (v *View) reader(in directory.Workspace) (client.Reader, bool) {
	cl, err := v.Clusters.GetCluster(v.ctx, v.Directory.Engaged(in.Cluster))
	if err != nil {
		if !errors.Is(err, multicluster.ErrClusterNotFound) {
			v.fail(err)
		}
		return nil, false
	}
	return cl.GetCache(), true
}

func (v *View) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// pointers returns pointers to the objects that can be read.
func pointers[T any, P interface {
	*T
	client.Object
}](items []T) []P {
	list := make([]P, 0, len(items))
	for i := range items {
		if decode.Unreadable(P(&items[i])) == nil {
			list = append(list, &items[i])
		}
	}
	return list
}
