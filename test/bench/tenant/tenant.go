// Package tenant is a workspace that a benchmark claims in: as a user without admin rights,
// with a watch that tells when a claim is answered.
package tenant

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// patience is how long anything may take before it is given up.
const patience = 2 * time.Minute

// Tenant is a workspace, a user of it, and that user's watch of the claims there. It is
// safe for concurrent use. Stop it.
type Tenant struct {
	client.WithWatch
	// Path of the workspace.
	Path string
	stop func() // ends the watch

	mu      sync.Mutex
	waiting map[string]waiter // by the claim's name
	lost    error             // why the watch has ended
}

// Options say which tenant. All fields are required.
type Options struct {
	Ground *harness.Ground
	// Platform is the path of the platform workspace, Path that of the tenant's.
	Platform, Path string
}

// Answered reports whether a claim has its answer.
type Answered func(*ipamv1alpha1.IPClaim) bool

// Bound reports whether a claim has its block, the answer that it is made for.
func Bound(claim *ipamv1alpha1.IPClaim) bool { return claim.Status.AllocatedCIDR != "" }

// Stored reports true: of a CREATE that nobody answers, the claim is the answer.
func Stored(*ipamv1alpha1.IPClaim) bool { return true }

// waiter waits for a claim to be answered.
type waiter struct {
	answered Answered
	at       chan<- time.Time // has room for one; closed when the watch is lost
}

// New makes a tenant of a platform and starts the watch.
func New(ctx context.Context, opts Options) (*Tenant, error) {
	if _, err := workspaces.EnsureTenant(ctx, opts.Ground.Admin, workspaces.TenantOptions{Workspace: opts.Path, Platform: opts.Platform}); err != nil {
		return nil, err
	}
	user, err := opts.Ground.NewUser(ctx, opts.Path)
	if err != nil {
		return nil, err
	}
	return Of(ctx, user, opts.Path)
}

// Of makes a tenant of a client of its workspace, and starts the watch.
func Of(ctx context.Context, c client.WithWatch, path string) (*Tenant, error) {
	t := &Tenant{WithWatch: c, Path: path, waiting: map[string]waiter{}}
	return t, t.watch(ctx)
}

// Stop ends the watch.
func (t *Tenant) Stop() { t.stop() }

// watch tells those who wait, until Stop. A server that is too busy may break a watch
// off; the next one begins with what there is, so that nobody waits in vain.
func (t *Tenant) watch(ctx context.Context) error {
	events, err := t.open(ctx)
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	t.stop = func() {
		stop()
		<-ended
	}
	go func() {
		defer close(ended)
		for err == nil {
			t.follow(watching, events)
			events, err = t.open(watching)
		}
		t.lose(err)
	}()
	return nil
}

// open begins a watch of the claims.
func (t *Tenant) open(ctx context.Context) (watch.Interface, error) {
	var events watch.Interface
	err := harness.Eventually(ctx, patience, "a watch of the claims", func(context.Context) (err error) {
		events, err = t.Watch(ctx, &ipamv1alpha1.IPClaimList{}) // outlives the wait
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watch the claims of %s: %w", t.Path, err)
	}
	return events, nil
}

// follow tells those who wait until the watch or ctx ends.
func (t *Tenant) follow(ctx context.Context, events watch.Interface) {
	defer events.Stop()
	for {
		select {
		case event, ok := <-events.ResultChan():
			if !ok {
				return
			}
			if claim, ok := event.Object.(*ipamv1alpha1.IPClaim); ok {
				t.seen(claim, time.Now())
			}
		case <-ctx.Done():
			return
		}
	}
}

func (t *Tenant) seen(claim *ipamv1alpha1.IPClaim, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.waiting[claim.Name]
	if !ok || !w.answered(claim) {
		return
	}
	delete(t.waiting, claim.Name)
	w.at <- now
}

func (t *Tenant) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = err
	for _, waiter := range t.waiting {
		close(waiter.at)
	}
	clear(t.waiting)
}

// Expect returns what tells when the watch has shown that a claim is answered. Call
// it before the claim is made.
func (t *Tenant) Expect(claim string, answered Answered) <-chan time.Time {
	at := make(chan time.Time, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		close(at)
		return at
	}
	t.waiting[claim] = waiter{answered, at}
	return at
}

// Await waits for what Expect has returned.
func (t *Tenant) Await(ctx context.Context, claim string, at <-chan time.Time) (time.Time, error) {
	select {
	case when, ok := <-at:
		if !ok {
			return when, fmt.Errorf("claim %s of %s: %w", claim, t.Path, t.lost)
		}
		return when, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("claim %s of %s has no answer: %w", claim, t.Path, context.Cause(ctx))
	}
}

// Claim makes a claim, and returns how long its answer took.
func (t *Tenant) Claim(ctx context.Context, name string, answered Answered, options ...gen.ClaimOption) (time.Duration, error) {
	at := t.Expect(name, answered)
	began := time.Now()
	if err := t.Create(ctx, gen.Claim(name, options...)); err != nil {
		return 0, fmt.Errorf("create claim %s of %s: %w", name, t.Path, err)
	}
	when, err := t.Await(ctx, name, at)
	return when.Sub(began), err
}

// Hand deletes a claim, and returns how long the next took to have its block.
func (t *Tenant) Hand(ctx context.Context, holding, next string) (time.Duration, error) {
	at := t.Expect(next, Bound)
	began := time.Now()
	if err := t.Delete(ctx, gen.Claim(holding)); err != nil {
		return 0, fmt.Errorf("delete claim %s of %s: %w", holding, t.Path, err)
	}
	when, err := t.Await(ctx, next, at)
	return when.Sub(began), err
}

// serial numbers the claims, so that no name is used twice.
var serial atomic.Int64

// NewName returns a name that no other claim of this program has.
func NewName() string { return fmt.Sprintf("claim-%d", serial.Add(1)) }

// Crowd is clients that claim side by side, spread over tenants.
type Crowd struct {
	Tenants []*Tenant
	Clients int
	// Answered says when a claim is, and Options what it asks for.
	Answered Answered
	Options  []gen.ClaimOption
}

// Claim has each client make its next claim when the last is answered, until the time is
// up. It returns how long each claim took, and how long all of it.
func (c Crowd) Claim(ctx context.Context, during time.Duration) (took []time.Duration, lasted time.Duration, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, during+patience, fmt.Errorf("not within %s", patience))
	defer cancel()
	each := make([][]time.Duration, c.Clients)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range each {
		group.Go(func() error {
			for time.Since(began) < during {
				one, err := c.Tenants[i%len(c.Tenants)].Claim(ctx, NewName(), c.Answered, c.Options...)
				if err != nil {
					return err
				}
				each[i] = append(each[i], one)
			}
			return nil
		})
	}
	err = group.Wait()
	return slices.Concat(each...), time.Since(began), err
}

// Unrecorded returns the number of claims of tenants that have a block and no IPAllocation yet.
func Unrecorded(ctx context.Context, tenants []*Tenant) (int, error) {
	backlog := 0
	for _, t := range tenants {
		records, claims := &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPClaimList{}
		if err := t.List(ctx, records); err != nil { // first: a record that comes meanwhile is not missed
			return 0, err
		}
		if err := t.List(ctx, claims); err != nil {
			return 0, err
		}
		for i := range claims.Items {
			if Bound(&claims.Items[i]) {
				backlog++
			}
		}
		backlog -= len(records.Items)
	}
	return backlog, nil
}

// Clean deletes all claims of tenants but those of a name that stay, which each of them
// has, and waits until nothing else is left.
func Clean(ctx context.Context, tenants []*Tenant, stay ...string) error {
	for _, t := range tenants {
		if err := t.deleteClaims(ctx, stay); err != nil {
			return fmt.Errorf("clean %s: %w", t.Path, err)
		}
	}
	return harness.Eventually(ctx, patience, "all records but those that stay to be gone", func(ctx context.Context) error {
		for _, t := range tenants {
			records := &ipamv1alpha1.IPAllocationList{}
			if err := t.List(ctx, records); err != nil {
				return err
			}
			if len(records.Items) != len(stay) {
				return fmt.Errorf("%s has %d IPAllocations; %d stay", t.Path, len(records.Items), len(stay))
			}
		}
		return nil
	})
}

func (t *Tenant) deleteClaims(ctx context.Context, stay []string) error {
	claims := &ipamv1alpha1.IPClaimList{}
	if err := t.List(ctx, claims); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, claim := range claims.Items {
		if !slices.Contains(stay, claim.Name) {
			group.Go(func() error { return t.Delete(ctx, &claim) })
		}
	}
	return group.Wait()
}
