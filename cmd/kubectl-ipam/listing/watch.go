package listing

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
)

// phaseDeleted is what a watched table shows of an object that is gone.
const phaseDeleted = "Deleted"

// follow prints a list and then each change, until the context ends. Tables have one heading, and columns that
// keep their width.
func (o *Command) follow(ctx context.Context, c client.WithWatch, list client.ObjectList, options client.ListOptions) error {
	lines, flush := o.Out, func() error { return nil }
	if o.Output.Tabular() && o.Output.Format != output.CSV {
		aligned := printers.GetNewTabWriter(o.Out)
		lines, flush = aligned, aligned.Flush
	}
	show := func(object runtime.Object) error {
		if o.Output.Format == output.YAML {
			screen.Line(lines, "---")
		}
		err := o.Output.Print(lines, object, o.Now)
		o.Output.NoHeaders = true
		return err
	}
	if err := errors.Join(meta.EachListItem(list, show), flush()); err != nil {
		return err
	}
	lists := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		options.Raw = &raw
		return c.Watch(ctx, list, &options)
	}}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), lists)
	if err != nil {
		return err
	}
	defer changes.Stop()
	for event := range changes.ResultChan() {
		switch event.Type {
		case watch.Error:
			return exit.Fail(exit.Aborted, "run the command again", "the watch has ended: %w", apierrors.FromObject(event.Object))
		case watch.Deleted:
			o.markDeleted(event.Object)
		default:
		}
		if err := errors.Join(show(event.Object), flush()); err != nil {
			return err
		}
	}
	return nil
}

// markDeleted marks an object as gone, in tables. Other formats print it as it was.
func (o *Command) markDeleted(object runtime.Object) {
	if !o.Output.Tabular() {
		return
	}
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		object.Status.Phase = phaseDeleted
	case *ipamv1alpha1.IPPool:
		object.Status.Phase = phaseDeleted
	case *ipamv1alpha1.IPClass:
		object.Status.Phase = phaseDeleted
	}
}
