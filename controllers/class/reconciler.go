package class

import (
	"context"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// Reconciler checks classes. It is safe for concurrent use.
type Reconciler struct {
	Options
	client client.Client
	// signed has the names of the classes that were seen with this version.
	signed sync.Map
}

// Reconcile reconciles one class.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	class := &ipamv1alpha1.IPClass{}
	if err := r.client.Get(ctx, req.NamespacedName, class); err != nil {
		r.signed.Delete(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !class.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	result, err := patch.Requeue(patch.Reconcile(ctx, r.client, class, func(ctx context.Context) error {
		return r.reconcile(ctx, class)
	}))
	if err == nil && result.IsZero() && counted(class) {
		result.RequeueAfter = recount
	}
	return result, err
}

// reconcile sets the status and the label of a class. The caller writes them.
func (r *Reconciler) reconcile(ctx context.Context, class *ipamv1alpha1.IPClass) error {
	view := r.Catalog.View(ctx)
	root, roles, broken := resolve.Chain(view, class)
	refusal := check(class, view.DefaultClasses())
	offering := 0
	if broken == nil {
		offering, broken = r.offering(view, root)
	}
	if broken != nil && (refusal == nil || outcome.Pending(refusal)) {
		refusal = broken
	}
	if err := view.Err(); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fail(class, err)
	}
	label(class)
	r.sign(class)
	class.Status.RequiredScopeRoles = roles
	class.Status.ProvisionedPools = r.provisioned(class)
	report(class, offering, refusal)
	return nil
}

// sign writes the version of the controller to a class, where everybody can read it. If another controller overwrites
// it, sign leaves that: otherwise two controllers that both lead would write for ever.
func (r *Reconciler) sign(class *ipamv1alpha1.IPClass) {
	if class.Annotations[ipamv1alpha1.AnnotationController] == r.Version {
		r.signed.Store(class.Name, true)
		return
	}
	if _, once := r.signed.Load(class.Name); once {
		return
	}
	if class.Annotations == nil {
		class.Annotations = map[string]string{}
	}
	class.Annotations[ipamv1alpha1.AnnotationController] = r.Version
}

// check returns what is wrong with a class; nil: nothing is.
func check(class *ipamv1alpha1.IPClass, marked []*ipamv1alpha1.IPClass) *outcome.Refusal {
	if p := class.Spec.Provisioner; p != "" && p != ipamv1alpha1.NativeProvisioner {
		return &outcome.Refusal{
			Reason:  ipamv1alpha1.ReasonUnknownProvisioner,
			Message: fmt.Sprintf("provisioner %q is not served here; use %q", p, ipamv1alpha1.NativeProvisioner),
		}
	}
	if !resolve.IsDefault(class) {
		return nil
	}
	if first, ok := resolve.Default(marked, class.Spec.IPFamily); ok && first.UID != class.UID {
		return &outcome.Refusal{
			Reason: ipamv1alpha1.ReasonDefaultConflict,
			Message: fmt.Sprintf("class %q is the default for %s already; take the annotation off one of the two",
				first.Name, class.Spec.IPFamily),
		}
	}
	return nil
}

// counted reports whether a class says how many pools it has made. A published class does not: every workspace can read
// it, and would learn how many networks others have, and when these come and go.
func counted(class *ipamv1alpha1.IPClass) bool {
	return len(class.Spec.PoolPer) > 0 && !resolve.Published(class)
}

// provisioned counts the pools that a class has made.
func (r *Reconciler) provisioned(class *ipamv1alpha1.IPClass) (n int32) {
	if !counted(class) {
		return 0
	}
	for pool := range r.Ledger.All() {
		if pool.Derived.Class == class.Name {
			n++
		}
	}
	return n
}

// offering counts the pools that offer a class, and with it the classes below. If there are only pools whose classes
// cannot share them, the refusal names one of these pools.
func (r *Reconciler) offering(view *catalog.View, class *ipamv1alpha1.IPClass) (n int, refusal *outcome.Refusal) {
	platform := r.Directory.Platform()
	for _, pool := range view.Backing(platform, class.Name) {
		if !resolve.Backs(pool, class) {
			continue
		}
		if said := resolve.ClassesDiffer(view, pool, platform, platform); said != "" {
			refusal = &outcome.Refusal{
				Reason:  ipamv1alpha1.ReasonUniqueWithinDiffers,
				Message: fmt.Sprintf("pool %q serves none of its classes: %s", pool.Name, said),
			}
			continue
		}
		n++
	}
	if n > 0 {
		refusal = nil
	}
	return n, refusal
}

// label sets the label of a class that every workspace may see, and removes it from any other class.
func label(class *ipamv1alpha1.IPClass) {
	if !resolve.Published(class) {
		delete(class.Labels, ipamv1alpha1.LabelPublished)
		return
	}
	if class.Labels == nil {
		class.Labels = map[string]string{}
	}
	class.Labels[ipamv1alpha1.LabelPublished] = "true"
}

// report sets the status of a class.
func report(class *ipamv1alpha1.IPClass, offering int, refusal *outcome.Refusal) {
	status := &class.Status
	status.OfferingPools = int32(offering) //nolint:gosec // pools of one workspace
	status.Lengths = ipamv1alpha1.LengthsColumn(class.Spec.AllowedPrefixLengths)
	status.ObservedGeneration = class.Generation
	status.Phase = phase(refusal)
	outcome.Ready(&status.Conditions, class.Generation, refusal)
}

func phase(refusal *outcome.Refusal) ipamv1alpha1.ClassPhase {
	switch {
	case refusal == nil:
		return ipamv1alpha1.ClassReady
	case outcome.Pending(refusal):
		return ipamv1alpha1.ClassPending
	default:
		return ipamv1alpha1.ClassError
	}
}

// fail records in the status of a class a fault that is being retried, and returns the fault for the log. The rest of
// the status stays. A class that was never reconciled becomes Pending.
func fail(class *ipamv1alpha1.IPClass, err error) error {
	if class.Status.Phase == "" {
		class.Status.Phase = ipamv1alpha1.ClassPending
	}
	refusal, err := outcome.Failed(err)
	outcome.Retry(&class.Status.Conditions, class.Generation, refusal)
	return err
}
