package sweep

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// AnnotationAllow is an annotation of a pool. Until the time that it gives, in the form of RFC 3339, sweeps may free
// any number of the pool's orphans. On a tenant's pool it counts only while all orphans are of the tenant's own
// workspace: the owner of a shared pool does not decide about the blocks of others.
const AnnotationAllow = ipamv1alpha1.AnnotationAllowSweep

// reasonBraked is the reason of the event on a pool whose brake is on.
const reasonBraked = "SweepBraked"

// State is what the caches show of the holder of a block.
type State int

const (
	// Held: the holder is there, with its record.
	Held State = iota
	// Unrecorded: the claim is bound, and its record is not there.
	Unrecorded
	// Orphaned: the holder is not there.
	Orphaned
	// Away: the holder's workspace is not engaged.
	Away
)

// World is what a sweep sees of Kubernetes.
type World interface {
	// State says what the caches show of the holder of a block.
	State(ctx context.Context, b ledger.Block) State
	// Allowed reports whether an authorized user has lifted the brake of a pool that has these orphans.
	Allowed(ctx context.Context, pool ledger.Pool, orphans []ledger.Holder, now time.Time) bool
	// Warn emits an event on a pool.
	Warn(ctx context.Context, pool ledger.Pool, message string)
}

// Caches are the World as the manager's caches show it.
type Caches struct {
	Clusters  catalog.Clusters
	Directory *directory.Directory
}

// These objects name the kinds to read. A round makes millions of reads, which share them.
var (
	claimKind  = &ipamv1alpha1.IPClaim{}
	poolKind   = &ipamv1alpha1.IPPool{}
	recordKind = &ipamv1alpha1.IPAllocation{}
)

// State implements World. In doubt it returns Held, because a later round can still find an orphan. A derived pool is
// Held as long as the ledger has it: the ledger alone decides when the pool goes. A claim that holds a range has no
// record. Such a range is passed as a block without a prefix.
func (c Caches) State(ctx context.Context, b ledger.Block) State {
	if ledger.IsDerived(b.Holder.Claim) {
		return Held
	}
	cl, err := c.Clusters.GetCluster(ctx, c.Directory.Engaged(b.Holder.Cluster))
	if err != nil {
		return Away
	}
	show, holder := packed.Kept(ctx, cl), client.ObjectKey{Namespace: b.Holder.Namespace, Name: b.Holder.Name}
	if b.State == ledger.Retained {
		return recorded(show, holder, b.Holder.Claim, Orphaned)
	}
	kind := client.Object(claimKind)
	if b.Holder.Namespace == "" {
		kind = poolKind
	}
	obj, err := show(kind, holder)
	switch {
	case err != nil:
	case obj == nil || !is(obj, b.Holder):
		return Orphaned
	case packed.Bound(obj) && b.Prefix.IsValid():
		return recorded(show, holder, b.Holder.Claim, Unrecorded)
	}
	return Held
}

// is reports whether an object with the holder's name is the holder.
func is(obj client.Object, h ledger.Holder) bool {
	return obj.GetUID() == types.UID(h.Claim) ||
		packed.AllocationID(obj) == types.UID(h.Claim) && promise.Fits(types.UID(h.Claim), h.Cluster, h.Namespace, h.Name)
}

// recorded returns Held if there is a record of a claim, whether the claim exists or not. Without a record it returns
// the state missing. In doubt it returns Held.
func recorded(show packed.Reader, claim client.ObjectKey, uid ledger.ClaimID, missing State) State {
	exists, err := record.Exists(func(key client.ObjectKey) (client.Object, error) {
		return show(recordKind, key)
	}, claim, types.UID(uid))
	if err == nil && !exists {
		return missing
	}
	return Held
}

// Allowed implements World.
func (c Caches) Allowed(ctx context.Context, pool ledger.Pool, orphans []ledger.Holder, now time.Time) bool {
	foreign := func(h ledger.Holder) bool { return h.Cluster != pool.Cluster }
	if pool.Cluster != c.Directory.Platform().Cluster && slices.ContainsFunc(orphans, foreign) {
		return false
	}
	_, obj, ok := c.pool(ctx, pool)
	if !ok {
		return false
	}
	until, err := time.Parse(time.RFC3339, obj.Annotations[AnnotationAllow])
	return err == nil && now.Before(until)
}

// Warn implements World.
func (c Caches) Warn(ctx context.Context, pool ledger.Pool, message string) {
	if cl, obj, ok := c.pool(ctx, pool); ok {
		cl.GetEventRecorder("ipam-controller").Eventf(obj, nil, corev1.EventTypeWarning, reasonBraked, "Sweep", "%s", message)
	}
}

func (c Caches) pool(ctx context.Context, pool ledger.Pool) (cl cluster.Cluster, obj *ipamv1alpha1.IPPool, ok bool) {
	cl, err := c.Clusters.GetCluster(ctx, c.Directory.Engaged(pool.Cluster))
	if err != nil {
		return nil, nil, false
	}
	obj = &ipamv1alpha1.IPPool{}
	err = cl.GetCache().Get(ctx, client.ObjectKey{Name: pool.Name}, obj)
	return cl, obj, err == nil
}
