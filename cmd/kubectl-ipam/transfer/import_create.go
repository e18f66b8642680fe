package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// atOnce is how many requests are under way at the same time.
const atOnce = 8

// each calls a function for every new step of a kind, several at a time, and prints the progress. It ends when the
// context ends, or after the first error of the function.
func (o *planImport) each(
	ctx context.Context, verb, kind string, steps []*step, do func(context.Context, *step) error,
) error {
	steps = slices.DeleteFunc(slices.Clone(steps), func(s *step) bool { return s.State != stateNew || s.Kind != kind })
	var mu sync.Mutex
	done, said := 0, o.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, s := range steps {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := do(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			done++
			if o.Now().Sub(said) >= sayEvery {
				said = o.Now()
				o.Say("%s: %d of %d %ss", verb, done, len(steps), kind)
			}
			return err
		})
	}
	return group.Wait()
}

// sayEvery is how often an import prints its progress.
const sayEvery = 5 * time.Second

// preview asks the server about every new line, and stores nothing. It adds the lines that the server refuses to the
// faults.
func (o *planImport) preview(ctx context.Context, c client.WithWatch, steps []*step, found *faults) error {
	newPool := len(found.problems) > 0 || slices.ContainsFunc(steps, func(s *step) bool {
		return s.State == stateNew && (s.Kind == "pool" || s.isRange())
	})
	faulty := found.lines()
	steps = slices.DeleteFunc(slices.Clone(steps), func(s *step) bool { return faulty[s.Line] })
	ask := func(ctx context.Context, s *step) error {
		err := o.ask(ctx, c, s, newPool)
		if _, answered := errors.AsType[*exit.Failure](err); ctx.Err() != nil ||
			!answered && exit.CodeOf(err) == exit.Unavailable {
			return err
		}
		if err != nil {
			s.Message, s.code = fmt.Sprintf("%s %s: %s", s.Kind, facts.Name(s.object), err), exit.CodeOf(err)
		}
		return nil
	}
	var ended error
	for _, kind := range []string{"pool", "claim"} {
		if ended = o.each(ctx, "checking", kind, steps, ask); ended != nil {
			break
		}
	}
	refused := slices.DeleteFunc(steps, func(s *step) bool { return s.code == 0 })
	slices.SortStableFunc(refused, func(a, b *step) int { return a.Line - b.Line })
	problems := make([]plan.Problem, len(refused))
	for i, s := range refused {
		problems[i] = plan.Problem{Line: s.Line, Message: s.Message}
	}
	if len(refused) > 0 {
		found.add(refused[0].code, problems...)
	}
	return ended
}

// ask asks the server about one line. It accepts that a claim's pool is missing if the plan will create pools.
func (o *planImport) ask(ctx context.Context, c client.WithWatch, s *step, newPool bool) error {
	object := s.object.DeepCopyObject().(client.Object)
	claim, ok := object.(*ipamv1alpha1.IPClaim)
	if !ok {
		return c.Create(ctx, object, client.DryRunAll)
	}
	_, err := ipamclient.Ensure(ctx, c, claim, client.DryRunAll)
	unmet, isUnmet := errors.AsType[*ipamclient.UnmetError](err)
	if !isUnmet {
		return err
	}
	switch unmet.Reason {
	case "", ipamv1alpha1.ReasonError:
		return nil // nobody can tell now; the import will show it
	case ipamv1alpha1.ReasonPoolNotFound, ipamv1alpha1.ReasonNoOfferingPool, ipamv1alpha1.ReasonAddressOutOfRange,
		ipamv1alpha1.ReasonRangeNotHeld:
		if newPool {
			return nil
		}
	default:
	}
	said := fmt.Sprintf("%s: %s", unmet.Reason, unmet.Message)
	if !strings.Contains(unmet.Message, "; ") { // otherwise the message has advice already
		said += "; " + exit.Remedy(claim, unmet.Reason)
	}
	return exit.Fail(unmet.Reason.ExitCode(), "", "%s", said)
}

// create creates the new objects: the pools, each with its block, and then the claims. If a line fails, the others are
// still created. The error names all lines that failed.
func (o *planImport) create(ctx context.Context, c client.WithWatch, steps []*step) error {
	ended := o.each(ctx, "creating", "pool", parentsFirst(steps), func(ctx context.Context, s *step) error {
		return o.store(ctx, s, o.createPool(ctx, c, s))
	})
	for _, level := range rangesFirst(steps) {
		if ended != nil {
			break
		}
		skipClaims(steps)
		ended = o.each(ctx, "creating", "claim", level, func(ctx context.Context, s *step) error {
			return o.store(ctx, s, o.createClaim(ctx, c, s))
		})
	}
	return o.failures(steps, ended)
}

// rangesFirst returns the claims in the order in which they can be created: ranges from the largest to the smallest,
// then blocks. The claims of one level can be created at the same time. If a block came first, it would make the ranges
// around it, perhaps elsewhere.
func rangesFirst(steps []*step) (levels [][]*step) {
	claims := slices.DeleteFunc(slices.Clone(steps), func(s *step) bool { return s.Kind != "claim" })
	slices.SortStableFunc(claims, func(a, b *step) int { return cmp.Compare(length(a), length(b)) })
	for i, s := range claims {
		if i == 0 || length(claims[i-1]) != length(s) {
			levels = append(levels, nil)
		}
		levels[len(levels)-1] = append(levels[len(levels)-1], s)
	}
	return levels
}

// length returns the prefix length of a range. For a block it returns a number above all lengths.
func length(s *step) int {
	block, err := plan.ParseBlock(s.Block)
	if !s.isRange() || err != nil {
		return 129
	}
	return block.Bits()
}

// isRange reports whether a line is a claim for a range.
func (s *step) isRange() bool {
	claim, ok := s.object.(*ipamv1alpha1.IPClaim)
	return ok && claim.Spec.Target == ipamv1alpha1.TargetScopeRange
}

// parentsFirst sorts the steps so that each pool comes after its parent, which has at least as many addresses. A pool
// waits for its parent, and only a few are created at the same time.
func parentsFirst(steps []*step) []*step {
	return slices.SortedStableFunc(slices.Values(steps), func(a, b *step) int { return cmp.Compare(depth(a), depth(b)) })
}

// depth returns a number by which pools are sorted before the pools below them, and claims last.
func depth(s *step) int {
	pool, ok := s.object.(*ipamv1alpha1.IPPool)
	switch {
	case !ok:
		return 2 * 129
	case pool.Spec.Carved():
		return 2*pool.Spec.Length() + 1
	}
	block, err := netip.ParsePrefix(string(pool.Spec.CIDR))
	if err != nil {
		return 0
	}
	return 2 * block.Bits()
}

// skipClaims marks the new claims as failed whose pool or range could not be created. They would wait for the pool in
// vain, or make the range elsewhere.
func skipClaims(steps []*step) {
	failed, ranges := map[string]*step{}, []*step{}
	for _, s := range steps {
		switch {
		case s.State != stateFailed:
		case s.Kind == "pool":
			failed[s.Name] = s
		case s.isRange():
			ranges = append(ranges, s)
		}
	}
	for _, s := range steps {
		claim, ok := s.object.(*ipamv1alpha1.IPClaim)
		if !ok || s.State != stateNew {
			continue
		}
		for _, r := range ranges {
			if scope := r.object.(*ipamv1alpha1.IPClaim).Spec.Scope; len(scope) > 0 && facts.Inside(claim.Spec.Scope, scope) {
				s.State, s.code = stateFailed, r.code
				s.Message = fmt.Sprintf("the range of claim %s of line %d is not there", r.Name, r.Line)
			}
		}
		if claim.Spec.PoolRef == nil || claim.Spec.PoolRef.ProjectRef != nil {
			continue
		}
		if pool, ok := failed[claim.Spec.PoolRef.Name]; ok {
			s.State, s.code = stateFailed, pool.code
			s.Message = fmt.Sprintf("pool %s of line %d is not ready", pool.Name, pool.Line)
		}
	}
}

// failures returns the error of all lines that failed. If ended is not nil, it comes first, and decides the exit code.
// Lines that are still new are marked as not tried.
func (o *planImport) failures(steps []*step, ended error) error {
	var errs []error
	if ended != nil {
		errs = append(errs, exit.Fail(exit.CodeOf(ended), exit.HintOf(ended), "%w", ended))
	}
	for _, s := range steps {
		if s.State == stateFailed && len(errs) <= mostNamed {
			errs = append(errs, exit.Fail(s.code, "", "%s:%d: %s", o.file, s.Line, s.Message))
		}
		if s.State == stateNew {
			s.State = stateUntried
		}
	}
	if ended != nil {
		errs = append(errs, exit.Fail(exit.CodeOf(ended), "",
			"%s is imported in part: import it again, which continues with the rest", o.file))
	}
	return errors.Join(errs...)
}

// store notes the result of a line. It returns an error if the other lines need not be tried.
func (o *planImport) store(ctx context.Context, s *step, err error) error {
	switch {
	case err == nil:
		s.State = stateCreated
		return nil
	case errors.Is(err, context.Canceled), exit.Unreachable(err):
		s.State, s.Message, s.code = stateUnknown, "its request was not answered", exit.CodeOf(err)
		return err
	}
	s.State, s.Message, s.code = stateFailed, err.Error(), exit.CodeOf(exit.Unmet(&ipamv1alpha1.IPClaim{}, err))
	return ctx.Err()
}

func (o *planImport) createPool(ctx context.Context, c client.WithWatch, s *step) error {
	pool := s.object.(*ipamv1alpha1.IPPool)
	if err := c.Create(ctx, pool); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	err := ipamclient.Until(limited, c, pool, func() bool {
		now := facts.AnswerOf(pool)
		return now.Given() || now.Stalled
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return facts.AnswerOf(pool).Err(pool)
}

// claimed creates a claim. While the server answers that nobody can tell now whether there is a block, it tries again:
// the range of the scope may have been released a moment ago.
func claimed(ctx context.Context, c client.WithWatch, claim *ipamv1alpha1.IPClaim) (err error) {
	_ = wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		_, err = ipamclient.Claim(ctx, c, claim)
		unmet, ok := errors.AsType[*ipamclient.UnmetError](err)
		return !ok || unmet.Stored || unmet.Reason != ipamv1alpha1.ReasonError, nil
	})
	return err
}

// createClaim creates a claim. If the claim gets no block, createClaim deletes it again, because an import leaves no
// claims that wait for an address in use.
func (o *planImport) createClaim(ctx context.Context, c client.WithWatch, s *step) error {
	claim := s.object.(*ipamv1alpha1.IPClaim)
	limited, cancel := context.WithTimeout(ctx, o.wait)
	defer cancel()
	err := claimed(limited, c, claim)
	unmet, ok := errors.AsType[*ipamclient.UnmetError](err)
	if !ok || !unmet.Stored {
		return err
	}
	// The deletion is for the version that was seen without a block. It goes on after an interrupt.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.wait)
	defer cancel()
	deleted := c.Delete(last, claim, client.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion})
	if client.IgnoreNotFound(deleted) != nil {
		return fmt.Errorf("%w; it stays: %w", err, deleted)
	}
	return err
}
