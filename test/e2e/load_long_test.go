//go:build long

package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// load creates ten claims a second in a tenant's workspace, and deletes every second one once it is bound. It fails
// the test if a claim loses its block, or if a request fails.
type load struct {
	*testing.T
	tenant  *framework.Tenant
	class   string
	prefix  string // the beginning of its claims' names
	cancel  context.CancelFunc
	done    chan struct{}
	created atomic.Int64

	blocks map[string]string // by claim, as first seen, of the claims that it keeps
}

func startLoad(t *testing.T, tenant *framework.Tenant, class, name string) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{T: t, tenant: tenant, class: class, prefix: "load-" + name + "-", cancel: cancel, done: make(chan struct{}), blocks: map[string]string{}}
	go func() {
		defer close(l.done)
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.step()
			}
		}
	}()
	return l
}

// creates waits until that many more claims have been created. On a busy machine, each takes a second.
func (l *load) creates(more int64) {
	l.Helper()
	want := l.created.Load() + more
	framework.Within(l, 4*framework.Patience, fmt.Sprintf("%d claims of %s", want, l.prefix), func(context.Context) error {
		if got := l.created.Load(); got < want {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// stop ends the load and returns the claims that are left, which may not be bound yet.
func (l *load) stop() []*ipamv1alpha1.IPClaim {
	l.Helper()
	l.cancel()
	<-l.done
	return l.claims()
}

// step creates a claim, and checks all others.
func (l *load) step() {
	kind := "kept-"
	if l.created.Load()%2 == 1 {
		kind = "gone-"
	}
	claim := gen.Claim(fmt.Sprint(l.prefix, kind, l.created.Load()), gen.OfClass(l.class))
	if err := l.tenant.Create(l.Context(), claim); err != nil {
		l.Errorf("create claim %s: %v", claim.Name, err)
	}
	l.created.Add(1)
	seen := map[string]bool{}
	for _, claim := range l.claims() {
		seen[claim.Name] = true
		block := claim.Status.AllocatedCIDR
		if first := l.blocks[claim.Name]; first != "" && first != block {
			l.Errorf("claim %s has the block %q, it had %s", claim.Name, block, first)
		}
		if block == "" || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if strings.Contains(claim.Name, "kept-") {
			l.blocks[claim.Name] = block
			continue
		}
		if err := client.IgnoreNotFound(l.tenant.Delete(l.Context(), claim)); err != nil {
			l.Errorf("delete claim %s: %v", claim.Name, err)
		}
	}
	for name := range l.blocks {
		if len(seen) > 0 && !seen[name] {
			l.Errorf("claim %s is gone", name)
		}
	}
}

func (l *load) claims() []*ipamv1alpha1.IPClaim {
	list := &ipamv1alpha1.IPClaimList{}
	if err := l.tenant.List(l.Context(), list, client.InNamespace("default")); err != nil {
		l.Errorf("list claims: %v", err)
		return nil
	}
	var claims []*ipamv1alpha1.IPClaim
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, l.prefix) {
			claims = append(claims, &list.Items[i])
		}
	}
	return claims
}
