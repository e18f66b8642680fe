package slice

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// absence is the time before a server is asked about a workspace that has a record and is not in the directory. The
// directory fills when the controller starts.
const absence = 15 * time.Second

// stage is how far a pool has come, as slices see it.
type stage int

const (
	pending stage = iota
	full          // its parent has no room for it
	ready
	leaving
)

func stageOf(pool *ipamv1alpha1.IPPool) stage {
	allocated := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	switch {
	case !pool.DeletionTimestamp.IsZero():
		return leaving
	case resolve.Ready(pool):
		return ready
	case allocated != nil && allocated.Reason == string(ipamv1alpha1.ReasonPoolExhausted):
		return full
	default:
		return pending
	}
}

// report reconciles a pool with slices. When the pool has changed, report queues every workspace. It writes the states
// of the members to the pool's status.
func (c *Controller) report(ctx context.Context, name string) (reconcile.Result, error) {
	platform, err := c.Catalog.Clusters.GetCluster(ctx, c.Directory.Engaged(c.Directory.Platform().Cluster))
	if err != nil {
		return reconcile.Result{}, err
	}
	view := c.Catalog.View(ctx)
	pool, exists := view.Pool(c.Directory.Platform(), name)
	if err := view.Err(); err != nil {
		return reconcile.Result{}, err
	}
	if owner := c.members.owner(name); owner != "" && owner != ledger.PoolID(pool.UID) {
		if err := c.Ledger.Slices.DropAll(ctx, owner); err != nil {
			return reconcile.Result{}, fmt.Errorf("forget the slices of pool %s: %w", name, err)
		}
		c.members.close(name)
	}
	if !exists {
		return reconcile.Result{}, nil
	}
	if err := c.enlist(ctx, pool); err != nil {
		return reconcile.Result{}, fmt.Errorf("look at the slices of pool %s: %w", name, err)
	}
	return patch.Requeue(patch.Reconcile(ctx, platform.GetClient(), pool, func(context.Context) error {
		say(pool, c.members.counts(name))
		return nil
	}))
}

// enlist queues all workspaces once for each version of the pool. It also queues workspaces with a record that are no
// longer bound.
func (c *Controller) enlist(ctx context.Context, pool *ipamv1alpha1.IPPool) error {
	now := version{pool: ledger.PoolID(pool.UID), generation: pool.Generation, stage: stageOf(pool)}
	if !c.members.open(pool.Name, now) {
		return nil
	}
	records, err := c.Ledger.Slices.List(ctx, now.pool)
	if err != nil {
		return err
	}
	for _, record := range records {
		at := request{pool: pool.Name, cluster: record.Cluster}
		if record.State == ledger.SliceWaiting {
			if c.members.set(at, membership{state: waiting, since: record.Since}) != waiting {
				c.members.tell(at, waiting) // the workspace was told when it began to wait
			}
		}
		c.members.expect(at)
		if c.Directory.Workspace(record.Cluster).Path == "" {
			c.queue.AddAfter(at, absence)
		}
	}
	for _, workspace := range c.Directory.Workspaces() {
		at := request{pool: pool.Name, cluster: workspace.Cluster}
		c.members.expect(at)
		c.queue.Add(at)
	}
	c.members.checked(pool.Name, now)
	return nil
}

// say sets the conditions about slices in the status of a pool. While some workspaces have not been reconciled yet, a
// condition that reports a problem stays.
func say(pool *ipamv1alpha1.IPPool, now counts) {
	conditions := &pool.Status.Conditions
	set := func(kind string, status metav1.ConditionStatus, reason ipamv1alpha1.Reason, message string) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type: kind, Status: status, Reason: string(reason), Message: message, ObservedGeneration: pool.Generation,
		})
	}
	said := meta.FindStatusCondition(*conditions, ipamv1alpha1.ConditionSliced)
	switch {
	case pool.Spec.Slices == nil:
		meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionSliced)
	case now[waiting] > 0:
		set(ipamv1alpha1.ConditionSliced, metav1.ConditionFalse, ipamv1alpha1.ReasonPoolFull,
			fmt.Sprintf("all slices are given, at most %d; workspaces that wait for one: %d; raise spec.slices.maxSlices",
				pool.Spec.Slices.MaxSlices, now[waiting]+now[unplaced]))
	case now[unplaced] > 0:
		set(ipamv1alpha1.ConditionSliced, metav1.ConditionFalse, ipamv1alpha1.ReasonPoolFull,
			fmt.Sprintf("there is no room for another /%d; workspaces that wait for one: %d",
				pool.Spec.Slices.PrefixLength, now[unplaced]))
	case now[nameTaken] > 0:
		set(ipamv1alpha1.ConditionSliced, metav1.ConditionFalse, ipamv1alpha1.ReasonNameTaken,
			fmt.Sprintf("workspaces that have a pool of this name themselves, and get no slice while they have: %d",
				now[nameTaken]))
	case now[unseen] == 0 || said == nil:
		set(ipamv1alpha1.ConditionSliced, metav1.ConditionTrue, ipamv1alpha1.ReasonSlicesGiven,
			"every admitted workspace has its slice, or has given it up")
	}
	switch {
	case !pool.DeletionTimestamp.IsZero(): // then the pool itself drains
	case now[draining] > 0:
		set(ipamv1alpha1.ConditionDraining, metav1.ConditionTrue, ipamv1alpha1.ReasonBlockInUse,
			fmt.Sprintf("slices that were given up, and return when the last block in them is released: %d", now[draining]))
	case now[unseen] == 0:
		meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionDraining)
	}
}

// refusal returns what to tell a workspace about its state; empty: nothing.
func (p *pass) refusal(now state) (reason ipamv1alpha1.Reason, message string) {
	pool := p.request.pool
	switch now {
	case waiting:
		return ipamv1alpha1.ReasonPoolFull, fmt.Sprintf("all slices of the platform's pool %q are given; "+
			"yours is made when it is your turn", pool)
	case unplaced:
		return ipamv1alpha1.ReasonPoolFull, fmt.Sprintf("the platform's pool %q has no room for another slice; "+
			"pool %q here waits for it", pool, pool)
	case nameTaken:
		return ipamv1alpha1.ReasonNameTaken,
			fmt.Sprintf("a slice of the platform's pool %q is yours, but pool %q here is not made by the system; "+
				"delete that to get it", pool, pool)
	default:
		return "", ""
	}
}
