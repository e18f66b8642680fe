package listing

import (
	"context"
	"io"

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

// watchPrinter prints a list and then its changes. Tables have one heading, and columns that
// keep their width.
type watchPrinter struct {
	*Command
	lines io.Writer
	flush func() error
}

func newWatchPrinter(o *Command) *watchPrinter {
	p := &watchPrinter{Command: o, lines: o.Out, flush: func() error { return nil }}
	if o.Output.Tabular() && o.Output.Format != output.CSV {
		aligned := printers.GetNewTabWriter(o.Out)
		p.lines, p.flush = aligned, aligned.Flush
	}
	return p
}

// run prints what was listed, and then each change, until the context ends.
func (p *watchPrinter) run(ctx context.Context, c client.WithWatch, list client.ObjectList, options client.ListOptions) error {
	if err := meta.EachListItem(list, p.print); err != nil {
		return err
	}
	return p.follow(ctx, c, list, options)
}

func (p *watchPrinter) print(object runtime.Object) error {
	if p.Output.Format == "yaml" {
		screen.Line(p.lines, "---")
	}
	if err := p.Output.Print(p.lines, object, p.Now); err != nil {
		return err
	}
	p.Output.NoHeaders = true
	return p.flush()
}

func (p *watchPrinter) follow(ctx context.Context, c client.WithWatch, list client.ObjectList, options client.ListOptions) error {
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
			p.markDeleted(event.Object)
		default:
		}
		if err := p.print(event.Object); err != nil {
			return err
		}
	}
	return nil
}

// markDeleted marks an object as gone, in tables. Other formats print it as it was.
func (p *watchPrinter) markDeleted(object runtime.Object) {
	if !p.Output.Tabular() {
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
