package cascade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/plural"
)

const (
	// atOnce is how many requests are under way at the same time.
	atOnce = 16
	// steps is how often progress is told during a run.
	steps = 20
	// named is how many of the objects that are left are named.
	named = 3
)

// Run releases objects, and tells the progress on a terminal.
type Run struct {
	*session.Session
	// Again says how to repeat the command after a failure. Default: run it again.
	Again string
	// Most is the number of failed releases after which no other is begun. Default: any number.
	Most int
}

// Do releases the objects level by level, those of one level at the same time. It ends early when the context does.
// After a failure it returns the errors, and one more that says how many objects are released, and which are left.
func (r Run) Do(
	ctx context.Context, levels [][]client.Object, release func(context.Context, client.Object) error,
) error {
	progress := progress{tell: r.Waits(), released: map[client.Object]bool{}}
	for _, level := range levels {
		progress.total += len(level)
	}
	for _, level := range levels {
		group := errgroup.Group{}
		group.SetLimit(atOnce)
		for _, object := range level {
			if ctx.Err() != nil || r.Most > 0 && progress.failures() >= r.Most {
				break
			}
			group.Go(func() error {
				progress.note(object, release(ctx, object))
				return nil // an error here would not stop the others
			})
		}
		_ = group.Wait()
		if ctx.Err() != nil || r.Most > 0 && progress.failures() > 0 {
			break
		}
	}
	return r.end(ctx, levels, &progress)
}

// end returns the errors, and names the objects that are left.
func (r Run) end(ctx context.Context, levels [][]client.Object, p *progress) error {
	left := p.left(levels)
	again := "run it again"
	if r.Again != "" {
		again = r.Again
	}
	switch {
	case ctx.Err() == nil && len(p.errs) == 0:
		return nil
	case ctx.Err() == nil && p.total == 1:
		return p.errs[0]
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return exit.Fail(exit.Aborted, "", "interrupted: %s; %s%s", p.count(), again, left)
	case ctx.Err() != nil:
		p.errs = append(p.errs, context.Cause(ctx))
	}
	return errors.Join(append(p.errs,
		exit.Fail(exit.CodeOf(p.errs[0]), exit.HintOf(p.errs[0]), "%s; %s%s", p.count(), again, left))...)
}

// progress counts the objects that are released. It is safe for concurrent use.
type progress struct {
	mu       sync.Mutex
	tell     func(string)
	total    int
	released map[client.Object]bool
	errs     []error
}

func (p *progress) failures() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.errs)
}

func (p *progress) note(object client.Object, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.errs = append(p.errs, err)
		return
	}
	p.released[object] = true
	if done := len(p.released); p.total >= steps && done%(p.total/steps) == 0 {
		p.tell(p.count())
	}
}

// count says how many objects are released.
func (p *progress) count() string {
	return fmt.Sprintf("%d of %s released", len(p.released), plural.Of(p.total, "claim", "claims"))
}

// left names some of the objects that are left.
func (p *progress) left(levels [][]client.Object) string {
	var names []string
	for _, level := range levels {
		for _, object := range level {
			if !p.released[object] {
				names = append(names, facts.Name(object))
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	said := " (left: " + strings.Join(names[:min(named, len(names))], ", ")
	if more := len(names) - named; more > 0 {
		said += " and " + plural.Of(more, "other", "others")
	}
	return said + ")"
}
