package feed

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/controllers/internal/packed"
)

// whole hands its handler whole objects where the cache keeps packed ones.
type whole struct {
	handler handler.TypedEventHandler[client.Object, mcreconcile.Request]
}

// Create implements handler.TypedEventHandler.
func (w whole) Create(ctx context.Context, e event.CreateEvent, q queue) {
	e.Object = packed.Whole(e.Object)
	w.handler.Create(ctx, e, q)
}

// Update implements handler.TypedEventHandler.
func (w whole) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	e.ObjectOld, e.ObjectNew = packed.Whole(e.ObjectOld), packed.Whole(e.ObjectNew)
	w.handler.Update(ctx, e, q)
}

// Delete implements handler.TypedEventHandler.
func (w whole) Delete(ctx context.Context, e event.DeleteEvent, q queue) {
	e.Object = packed.Whole(e.Object)
	w.handler.Delete(ctx, e, q)
}

// Generic implements handler.TypedEventHandler.
func (w whole) Generic(ctx context.Context, e event.GenericEvent, q queue) {
	e.Object = packed.Whole(e.Object)
	w.handler.Generic(ctx, e, q)
}
