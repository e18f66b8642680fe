package class

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// Options configure the controller. All fields are required.
type Options struct {
	Catalog   *catalog.Catalog
	Directory *directory.Directory
	// Version is that of the controller.
	Version string
}

// Setup adds the class controller to the platform's manager: classes live there
// and nowhere else.
func Setup(mgr manager.Manager, opts Options) error {
	r := &Reconciler{client: mgr.GetClient(), catalog: opts.Catalog, directory: opts.Directory, version: opts.Version}
	return builder.ControllerManagedBy(mgr).
		Named("class").
		Watches(&ipamv1alpha1.IPClass{}, r.onClass()).
		Watches(&ipamv1alpha1.IPPool{}, onPool()).
		Complete(r)
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// onClass queues a class that came or changed, and the other classes marked as default: another one may
// be in force now.
func (r *Reconciler) onClass() handler.EventHandler {
	marked := func(ctx context.Context, q queue) {
		list := &ipamv1alpha1.IPClassList{}
		if err := r.client.List(ctx, list, client.MatchingFields{catalog.ByDefault: "true"}); err != nil {
			log.FromContext(ctx).Error(err, "list default classes")
			return
		}
		for i := range list.Items {
			q.Add(request(list.Items[i].Name))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { q.Add(request(e.Object.GetName())) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			q.Add(request(e.ObjectNew.GetName()))
			before, after := e.ObjectOld.(*ipamv1alpha1.IPClass), e.ObjectNew.(*ipamv1alpha1.IPClass)
			if resolve.IsDefault(before) != resolve.IsDefault(after) {
				marked(ctx, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if resolve.IsDefault(e.Object.(*ipamv1alpha1.IPClass)) {
				marked(ctx, q)
			}
		},
	}
}

// onPool requeues the classes that a pool names, or named.
func onPool() handler.EventHandler {
	add := func(obj client.Object, q queue) {
		for _, class := range obj.(*ipamv1alpha1.IPPool).Spec.ClassNames {
			q.Add(request(class))
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, after := e.ObjectOld.(*ipamv1alpha1.IPPool), e.ObjectNew.(*ipamv1alpha1.IPPool)
			if before.Generation != after.Generation || resolve.Ready(before) != resolve.Ready(after) {
				add(before, q)
				add(after, q)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

func request(class string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: class}}
}
