package class

import (
	"context"
	"iter"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// Options configure the controller. All fields are required.
type Options struct {
	Catalog   *catalog.Catalog
	Directory *directory.Directory
	// Version is the version of the controller.
	Version string
	// Ledger lists the pools that classes have made.
	Ledger Derived
}

// Derived lists the pools that the system has made, in memory.
type Derived interface {
	All() iter.Seq[ledger.Pool]
}

// recount is the time after which the pools of a class are counted again: the events of the platform do not tell of
// pools in tenants' workspaces.
const recount = 5 * time.Second

// Setup adds the class controller to the manager of the platform. Classes live there, and nowhere else.
func Setup(mgr manager.Manager, opts Options) error {
	r := &Reconciler{Options: opts, client: mgr.GetClient()}
	return builder.ControllerManagedBy(mgr).
		Named("class").
		Watches(&ipamv1alpha1.IPClass{}, r.onClass()).
		Watches(&ipamv1alpha1.IPPool{}, r.onPool()).
		Complete(r)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// add queues the classes for which pick returns true.
func (r *Reconciler) add(ctx context.Context, q queue, pick func(*ipamv1alpha1.IPClass) bool) {
	list := &ipamv1alpha1.IPClassList{}
	if err := r.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "list classes")
		return
	}
	for i := range list.Items {
		if pick(&list.Items[i]) {
			q.Add(request(list.Items[i].Name))
		}
	}
}

// below reports whether a class has a parent. Its status then depends on the classes above it, and on those that share
// their pools.
func below(class *ipamv1alpha1.IPClass) bool { return class.Spec.ParentClassName != "" }

// beside queues the classes that share a pool with this class. If this class came or went, they may now differ in
// uniqueWithin, or no longer.
func (r *Reconciler) beside(ctx context.Context, class string, q queue) {
	for _, pool := range r.Catalog.View(ctx).Backing(r.Directory.Platform(), class) {
		for _, name := range pool.Spec.ClassNames {
			q.Add(request(name))
		}
	}
}

// onClass queues a class that came, changed or went, the classes with a parent, as they may be below it, and those that
// share a pool with it. If the class was marked as default, or is now, onClass queues all classes that are marked:
// another one may be in force.
func (r *Reconciler) onClass() handler.EventHandler {
	marked := func(ctx context.Context, q queue) { r.add(ctx, q, resolve.IsDefault) }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			q.Add(request(e.Object.GetName()))
			r.add(ctx, q, below)
			r.beside(ctx, e.Object.GetName(), q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			q.Add(request(e.ObjectNew.GetName()))
			before, after := e.ObjectOld.(*ipamv1alpha1.IPClass), e.ObjectNew.(*ipamv1alpha1.IPClass)
			if before.Generation != after.Generation {
				r.add(ctx, q, below)
			}
			if resolve.IsDefault(before) != resolve.IsDefault(after) {
				marked(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if resolve.IsDefault(e.Object.(*ipamv1alpha1.IPClass)) {
				marked(ctx, q)
			}
			r.add(ctx, q, below)
			r.beside(ctx, e.Object.GetName(), q)
		},
	}
}

// onPool requeues the classes that a pool names or named. It also requeues all classes with a parent, as they may be
// below these.
func (r *Reconciler) onPool() handler.EventHandler {
	add := func(ctx context.Context, obj client.Object, q queue) {
		names := obj.(*ipamv1alpha1.IPPool).Spec.ClassNames
		for _, class := range names {
			q.Add(request(class))
		}
		if len(names) > 0 {
			r.add(ctx, q, below)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*ipamv1alpha1.IPPool), e.ObjectNew.(*ipamv1alpha1.IPPool)
			if before.Generation != after.Generation || resolve.Ready(before) != resolve.Ready(after) {
				add(ctx, before, q)
				add(ctx, after, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}

func request(class string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: class}}
}
