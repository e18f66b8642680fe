package slice

import (
	"context"
	"errors"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// pass is one reconcile of what one workspace has of one pool.
type pass struct {
	*Controller
	request request
	parent  *ipamv1alpha1.IPPool
	member  directory.Workspace
	cluster cluster.Cluster          // nil: the workspace is not engaged
	binding *apisv1alpha2.APIBinding // the binding that entitles the workspace; nil: none yet
	child   *ipamv1alpha1.IPPool     // the pool of the same name in the workspace, of any origin; nil: none
}

// These errors end a pass that has not found the state of its workspace.
var (
	// errDoubt: no server says what became of the child.
	errDoubt = errors.New("the workspace cannot be asked")
	// errLags: the cache does not show what is there.
	errLags = errors.New("the cache lags behind")
	// errUnseen: a server has the child, or the workspace is bound, but the cache does not show it. An event is on its
	// way.
	errUnseen = errors.New("the workspace is not seen yet")
	// errInUse: the child is gone, and the ledger still has its block, because blocks inside are held.
	errInUse = errors.New("the block is in use")
)

// member reconciles what a workspace has of a pool.
func (c *Controller) member(ctx context.Context, req request) (reconcile.Result, error) {
	p, ok, err := c.begin(ctx, req)
	if err != nil || !ok {
		return reconcile.Result{}, err
	}
	now, err := p.look(ctx)
	doubtful := errors.Is(err, errDoubt)
	switch {
	case doubtful:
		now = unseen
	case errors.Is(err, errLags):
		return reconcile.Result{RequeueAfter: patch.ConflictDelay}, nil
	case errors.Is(err, errUnseen):
		return reconcile.Result{}, nil
	case errors.Is(err, errInUse):
		now = draining
	case err != nil:
		return reconcile.Result{}, err
	}
	p.setState(now)
	if doubtful || !p.tell(ctx, now) {
		return reconcile.Result{RequeueAfter: c.doubt.When(req)}, nil
	}
	c.doubt.Forget(req)
	return reconcile.Result{}, nil
}

// begin reads what a pass needs from the caches. ok is false if the platform's pool is gone: then nothing is to be done
// for its slices here.
func (c *Controller) begin(ctx context.Context, req request) (p *pass, ok bool, err error) {
	view := c.Catalog.View(ctx)
	p = &pass{Controller: c, request: req, member: c.Directory.Workspace(req.cluster)}
	if p.parent, ok = view.Pool(c.Directory.Platform(), req.pool); !ok {
		return nil, false, view.Err()
	}
	p.cluster, err = c.Catalog.Clusters.GetCluster(ctx, c.Directory.Engaged(req.cluster))
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		p.cluster = nil
		return p, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	// An unreadable pool has the name, too.
	if child, there := view.Pool(p.member, req.pool); there || decode.Unreadable(child) != nil {
		p.child = child
	}
	bindings := &apisv1alpha2.APIBindingList{}
	if err := errors.Join(view.Err(), p.cluster.GetCache().List(ctx, bindings)); err != nil {
		return nil, false, err
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; directory.Serves(b) && b.DeletionTimestamp.IsZero() {
			p.binding = b
		}
	}
	return p, true, nil
}

// look returns the state of the workspace, and gives it a slice if it is entitled to one.
func (p *pass) look(ctx context.Context) (state, error) {
	mine := p.child != nil && p.child.Labels[ipamv1alpha1.LabelSlice] == string(p.parent.UID)
	switch {
	case !mine:
		return p.without(ctx)
	case p.child.DeletionTimestamp.IsZero():
		return p.with(ctx)
	case meta.IsStatusConditionTrue(p.child.Status.Conditions, ipamv1alpha1.ConditionInUse):
		return draining, nil
	default:
		return settled, nil
	}
}

// with reconciles a slice that exists.
func (p *pass) with(ctx context.Context) (state, error) {
	id := ledger.PoolID(p.child.UID)
	if p.entitlement() == denied || !resolve.IsSlice(p.child, p.parent) {
		// A slice with a block stays, as all that was given out stays when a pool is no longer shared.
		_, holds, err := p.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(id))
		if err != nil {
			return settled, err
		}
		if !holds {
			return settled, p.recall(ctx)
		}
	}
	if p.binding != nil && p.members.child(p.request) != id {
		err := p.put(ctx, ledger.SliceGiven, id, p.limit())
		if errors.Is(err, allocator.ErrSlicesGiven) {
			return nameTaken, nil
		}
		if err != nil {
			return settled, err
		}
	}
	if stageOf(p.child) == full {
		return unplaced, nil
	}
	return settled, nil
}

// limit returns how many slices there may be with this child among them; 0: any number. A child's label alone proves
// nothing, since it could be stored past all policies. But if the status shows a block, the system has made the slice,
// and it counts however low maxSlices is now.
func (p *pass) limit() int {
	if p.parent.Spec.Slices == nil || p.child.Status.AllocatedCIDR != "" {
		return 0
	}
	return int(p.parent.Spec.Slices.MaxSlices)
}

// without reconciles a workspace that has no slice.
func (p *pass) without(ctx context.Context) (state, error) {
	record, err := p.settle(ctx)
	if err != nil {
		return settled, err
	}
	switch p.entitlement() {
	case undecided:
		return settled, nil
	case denied:
		return settled, p.forfeit(ctx, record)
	case entitled:
	}
	switch {
	case record.State == ledger.SliceDeclined && record.Binding == string(p.binding.UID):
		return settled, nil
	case p.child != nil:
		return nameTaken, p.forfeit(ctx, record)
	default:
		return p.give(ctx)
	}
}

// entitlement says whether a workspace may have a slice.
type entitlement int

const (
	undecided entitlement = iota // it cannot be said yet
	denied
	entitled
)

func (p *pass) entitlement() entitlement {
	switch {
	case p.parent.Spec.Slices == nil, !p.parent.DeletionTimestamp.IsZero():
		return denied
	case p.binding == nil, p.member.Path == "":
		return undecided
	case !resolve.AdmitsToSlices(p.parent, p.Directory.Platform(), p.member):
		return denied
	case !resolve.Ready(p.parent):
		return undecided
	default:
		return entitled
	}
}

// setState notes the state of the workspace. If the state has changed, setState requeues the pool, whose status shows
// the state, and, if the workspace has stopped waiting, the one that has waited longest.
func (p *pass) setState(now state) {
	at := membership{state: now}
	if p.binding != nil {
		at.since = p.binding.CreationTimestamp.Time
	}
	before := p.members.set(p.request, at)
	if before == now {
		return
	}
	p.queue.Add(request{pool: p.request.pool})
	if before == waiting {
		p.wake(p.request.pool)
	}
}

// tell emits one event in the workspace that says why it has no slice. It returns false while the binding has not
// accepted the events of the export.
func (p *pass) tell(ctx context.Context, now state) bool {
	reason, message := p.refusal(now)
	if reason == "" || p.binding == nil {
		return true
	}
	if !packed.AcceptsEvents(p.binding) { // it may accept them a moment after the workspace is bound
		return false
	}
	if p.members.tell(p.request, now) {
		// The event is about the binding, because the workspace may have no other object that it fits.
		p.cluster.GetEventRecorder("ipam-controller").Eventf(p.binding, nil, corev1.EventTypeWarning, string(reason),
			"Slice", "%s", message)
		log.FromContext(ctx).Info("slice refused", "reason", reason, "message", message)
	}
	return true
}

// wake requeues the workspace that has waited longest.
func (c *Controller) wake(pool string) {
	if first, _, ok := c.members.first(pool); ok {
		c.queue.Add(request{pool: pool, cluster: first})
	}
}
