//go:build long

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// kcp is restarted in the middle of a crowd of claims. The controller finds it again, and claims that were made or
// deleted just before keep their outcome. All other tests wait for this one.
func TestLong_RestartOfKCP(t *testing.T) {
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenants := []*framework.Tenant{platform.Tenant(t), platform.Tenant(t)}
	goes := claimAnew(t, tenants[0], name)

	come := crowdOf(t, name, tenants...)
	waitSomeBound(t, crowd/10, tenants...)
	framework.Delete(t, tenants[0], goes)
	framework.RestartKCP(t)
	must.Do(t, come.Wait())
	waitUnrecorded(t, tenants[0], goes.Name)
	blocks := boundBlocks(t, crowd/2, tenants...)
	waitHeld(t, platform, pool, size(blocks...))
	blocks = append(blocks, blockOf(t, claimAnew(t, tenants[1], name)))
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
	restartShared(t)
}

// restartShared starts the shared controller again. Its watches have ended with kcp, and then the reflectors of
// client-go pause for up to a minute, which the other tests do not expect.
func restartShared(t *testing.T) {
	t.Helper()
	shared := framework.SharedPlatform(t)
	defer shared.StartController(t) // even after an error, so that the other tests do not fail
	shared.StopController(t)
}

// waitSomeBound waits until the tenants together have that many bound claims, while the rest of the crowd is still to
// come.
func waitSomeBound(t *testing.T, want int, tenants ...*framework.Tenant) {
	t.Helper()
	bound := 0
	framework.Eventually(t, fmt.Sprintf("%d bound claims", want), func(ctx context.Context) error {
		bound = 0
		for _, tenant := range tenants {
			claims := &ipamv1alpha1.IPClaimList{}
			if err := tenant.List(ctx, claims); err != nil {
				return err
			}
			bound += countBound(claims)
		}
		if bound < want {
			return fmt.Errorf("there are %d", bound)
		}
		return nil
	})
	if bound == crowd {
		t.Errorf("all %d claims are bound: the crowd is over", bound)
	}
}

// crowd is how many claims come at once, from two tenants together.
const crowd = 200

// lengths are the lengths that the claims of a crowd ask for in turn.
var lengths = []int32{24, 29, 32, 27, 26, 30, 28, 25, 31, 29}

// crowdOf makes every tenant create its share of claims by a class, several at a time. The returned group ends when
// all claims are made. A claim that cannot be made while a server is away is made when it is back.
func crowdOf(t *testing.T, class string, tenants ...*framework.Tenant) *errgroup.Group {
	t.Helper()
	group := &errgroup.Group{}
	for _, tenant := range tenants {
		group.Go(func() error {
			share := &errgroup.Group{}
			share.SetLimit(8)
			for i := range crowd / len(tenants) {
				length := lengths[i%len(lengths)]
				claim := gen.Claim(fmt.Sprintf("claim-%03d-of-%d", i, length), gen.OfClass(class), gen.Length(length))
				share.Go(func() error { return insist(t.Context(), tenant, claim) })
			}
			return share.Wait()
		})
	}
	return group
}

// insist tries to create an object until it exists.
func insist(ctx context.Context, c client.Client, object client.Object) error {
	var missing error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, framework.Patience, true, func(ctx context.Context) (bool, error) {
		missing = client.IgnoreAlreadyExists(c.Create(ctx, object))
		return missing == nil, nil
	})
	if err != nil {
		return fmt.Errorf("create %s: %w; last seen: %w", object.GetName(), err, missing)
	}
	return nil
}
