// Package tenant is a workspace that a benchmark claims in: as a user who is no admin,
// with a watch that tells when a claim is answered.
package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
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
	KCP *local.KCP
	// Admin is the access of kcp's admin.
	Admin *rest.Config
	// Platform is the path of the platform workspace, Path that of the tenant's.
	Platform, Path string
}

// Answered reports whether a claim has its answer.
type Answered func(*ipamv1alpha1.IPClaim) bool

// Bound is the answer that a claim is made for.
func Bound(claim *ipamv1alpha1.IPClaim) bool { return claim.Status.AllocatedCIDR != "" }

// waiter is somebody who waits for a claim to be answered.
type waiter struct {
	answered Answered
	at       chan<- time.Time // has room for one; closed when the watch is lost
}

// New makes a tenant of a platform and starts the watch.
func New(ctx context.Context, opts Options) (*Tenant, error) {
	if _, err := workspaces.EnsureTenant(ctx, opts.Admin, workspaces.TenantOptions{Workspace: opts.Path, Platform: opts.Platform}); err != nil {
		return nil, err
	}
	user, err := opts.KCP.TakeUser()
	if err != nil {
		return nil, err
	}
	admin, err := workspaces.NewClient(workspaces.At(opts.Admin, opts.Path))
	if err != nil {
		return nil, err
	}
	for _, role := range []string{"system:kcp:workspace:access", "ipam-pool-admin"} {
		binding := &rbacv1.ClusterRoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}},
		}
		binding.Name = "bench:" + role
		if err := admin.Create(ctx, binding); err != nil {
			return nil, fmt.Errorf("make a user of %s: %w", opts.Path, err)
		}
	}
	cfg, err := opts.KCP.As(user, opts.Path)
	if err != nil {
		return nil, err
	}
	c, err := workspaces.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	t := &Tenant{WithWatch: c, Path: opts.Path, waiting: map[string]waiter{}}
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
	err := Eventually(ctx, "a watch of the claims", func(context.Context) (err error) {
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

// DeleteClaims deletes all claims but those of a name that stay.
func (t *Tenant) DeleteClaims(ctx context.Context, stay ...string) error {
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

// Eventually calls check until it returns nil.
func Eventually(ctx context.Context, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var missing error
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		// A call cut short by the end of the wait says less than the one before it.
		if seen := check(ctx); ctx.Err() == nil || missing == nil {
			missing = seen
		}
		return missing == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("wait for %s: %w", what, err), missing)
	}
	return nil
}
