package feed

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// platform passes on what happens on the platform. An update from one object to another of its name
// becomes two events, as in a tap.
type platform struct {
	eventHandler
}

// Update implements handler.TypedEventHandler.
func (p platform) Update(ctx context.Context, e event.UpdateEvent, q queue) {
	if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
		p.Delete(ctx, event.DeleteEvent{Object: e.ObjectOld, DeleteStateUnknown: true}, q)
		p.Create(ctx, event.CreateEvent{Object: e.ObjectNew}, q)
		return
	}
	p.eventHandler.Update(ctx, e, q)
}
