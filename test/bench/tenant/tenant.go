// Package tenant is a workspace in which a benchmark makes claims, as a user without admin rights. A watch shows when
// a claim is answered.
package tenant

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/framework/retry"
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
	// Platform is the path of the platform workspace, and Path is the path of the tenant's workspace.
	Platform, Path string
}

// Answered reports whether a claim has its answer.
type Answered func(*ipamv1alpha1.IPClaim) bool

// Bound reports whether a claim has its block. That is the usual answer.
func Bound(claim *ipamv1alpha1.IPClaim) bool { return claim.Status.AllocatedCIDR != "" }

// Stored reports true: if no controller answers a CREATE, the stored claim is the answer.
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
	t := &Tenant{WithWatch: user, Path: opts.Path, waiting: map[string]waiter{}}
	return t, t.watch(ctx)
}

// Stop ends the watch.
func (t *Tenant) Stop() { t.stop() }

// watch notifies waiters until Stop. A server that is too busy may end a watch. The next watch begins with the
// existing claims, so that no waiter misses its answer.
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
	err := retry.Do(ctx, patience, "wait for a watch of the claims", func(context.Context) (err error) {
		events, err = t.Watch(ctx, &ipamv1alpha1.IPClaimList{}) // outlives the wait
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watch the claims of %s: %w", t.Path, err)
	}
	return events, nil
}

// follow notifies waiters until the watch or ctx ends.
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

// expect returns a channel that gets the time at which the watch shows the claim's answer. Call it before the claim
// is made.
func (t *Tenant) expect(claim string, answered Answered) <-chan time.Time {
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

// Claim makes a claim, and returns how long its answer took.
func (t *Tenant) Claim(ctx context.Context, name string, answered Answered, options ...gen.ClaimOption) (time.Duration, error) {
	at := t.expect(name, answered)
	began := time.Now()
	if err := t.Create(ctx, gen.Claim(name, options...)); err != nil {
		return 0, fmt.Errorf("create claim %s of %s: %w", name, t.Path, err)
	}
	select {
	case when, ok := <-at:
		if !ok {
			return 0, fmt.Errorf("claim %s of %s: %w", name, t.Path, t.lost)
		}
		return when.Sub(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("claim %s of %s has no answer: %w", name, t.Path, context.Cause(ctx))
	}
}

// serial numbers the claims, so that no name is used twice.
var serial atomic.Int64

// NewName returns a name that no other claim of this program has.
func NewName() string { return fmt.Sprintf("claim-%d", serial.Add(1)) }

// Unrecorded returns how many claims of tenants have a block but no IPAllocation yet.
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

// Clean deletes all claims of tenants, and waits until nothing is left.
func Clean(ctx context.Context, tenants []*Tenant) error {
	for _, t := range tenants {
		if err := t.deleteClaims(ctx); err != nil {
			return fmt.Errorf("clean %s: %w", t.Path, err)
		}
	}
	return retry.Do(ctx, patience, "wait for all records to be gone", func(ctx context.Context) error {
		for _, t := range tenants {
			records := &ipamv1alpha1.IPAllocationList{}
			if err := t.List(ctx, records); err != nil {
				return err
			}
			if len(records.Items) > 0 {
				return fmt.Errorf("%s has %d IPAllocations", t.Path, len(records.Items))
			}
		}
		return nil
	})
}

func (t *Tenant) deleteClaims(ctx context.Context) error {
	claims := &ipamv1alpha1.IPClaimList{}
	if err := t.List(ctx, claims); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, claim := range claims.Items {
		group.Go(func() error { return t.Delete(ctx, &claim) })
	}
	return group.Wait()
}
