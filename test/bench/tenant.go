package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// tenantCount is how many tenants a side has. The clients are spread over them.
const tenantCount = 4

// tenant is a workspace, a user of it, and that user's watch of the claims there.
type tenant struct {
	client.WithWatch
	path string
	stop func() // ends the watch

	mu      sync.Mutex
	waiting map[string]waiter // by the claim's name
	lost    error             // why the watch has ended
}

// waiter is somebody who waits for a claim to be answered.
type waiter struct {
	answered func(*ipamv1alpha1.IPClaim) bool
	at       chan<- time.Time // has room for one; closed when the watch is lost
}

// newTenant makes a tenant of a platform, whose user is no admin, and starts the watch.
func (s *stage) newTenant(ctx context.Context, platform, path string) (*tenant, error) {
	if _, err := workspaces.EnsureTenant(ctx, s.admin, workspaces.TenantOptions{Workspace: path, Platform: platform}); err != nil {
		return nil, err
	}
	user, err := s.kcp.TakeUser()
	if err != nil {
		return nil, err
	}
	admin, err := workspaces.NewClient(workspaces.At(s.admin, path))
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
			return nil, fmt.Errorf("make a user of %s: %w", path, err)
		}
	}
	cfg, err := s.kcp.As(user, path)
	if err != nil {
		return nil, err
	}
	c, err := workspaces.NewClient(cfg)
	if err != nil {
		return nil, err
	}
	t := &tenant{WithWatch: c, path: path, waiting: map[string]waiter{}}
	return t, t.watch(ctx)
}

// watch tells those who wait, until stop. A server that is too busy may break a watch
// off; the next one begins with what there is, so that nobody waits in vain.
func (t *tenant) watch(ctx context.Context) error {
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
func (t *tenant) open(ctx context.Context) (watch.Interface, error) {
	var events watch.Interface
	err := eventually(ctx, "a watch of the claims", func(context.Context) (err error) {
		events, err = t.Watch(ctx, &ipamv1alpha1.IPClaimList{}) // outlives the wait
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("watch the claims of %s: %w", t.path, err)
	}
	return events, nil
}

// follow tells those who wait until the watch or ctx ends.
func (t *tenant) follow(ctx context.Context, events watch.Interface) {
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

func (t *tenant) seen(claim *ipamv1alpha1.IPClaim, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.waiting[claim.Name]
	if !ok || !w.answered(claim) {
		return
	}
	delete(t.waiting, claim.Name)
	w.at <- now
}

func (t *tenant) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lost = err
	for _, waiter := range t.waiting {
		close(waiter.at)
	}
	clear(t.waiting)
}

// expect returns what tells when the watch has shown that a claim is answered. Call
// it before the claim is made.
func (t *tenant) expect(claim string, answered func(*ipamv1alpha1.IPClaim) bool) <-chan time.Time {
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

// await waits for what expect has returned.
func (t *tenant) await(ctx context.Context, claim string, at <-chan time.Time) (time.Time, error) {
	select {
	case when, ok := <-at:
		if !ok {
			return when, fmt.Errorf("claim %s of %s: %w", claim, t.path, t.lost)
		}
		return when, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("claim %s of %s has no answer: %w", claim, t.path, context.Cause(ctx))
	}
}

// claim makes a claim, and returns how long its answer took.
func (t *tenant) claim(ctx context.Context, k kind, name string) (time.Duration, error) {
	at := t.expect(name, k.answered)
	began := time.Now()
	if err := t.Create(ctx, gen.Claim(name, k.options...)); err != nil {
		return 0, fmt.Errorf("create claim %s of %s: %w", name, t.path, err)
	}
	when, err := t.await(ctx, name, at)
	return when.Sub(began), err
}

// hand deletes a claim, and returns how long the next took to have its block.
func (t *tenant) hand(ctx context.Context, holding, next string) (time.Duration, error) {
	at := t.expect(next, bound)
	began := time.Now()
	if err := t.Delete(ctx, gen.Claim(holding)); err != nil {
		return 0, fmt.Errorf("delete claim %s of %s: %w", holding, t.path, err)
	}
	when, err := t.await(ctx, next, at)
	return when.Sub(began), err
}
