package e2e

import (
	"context"
	"fmt"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
)

// kcp is restarted in the middle of a crowd of claims: the controller finds it again, and
// nothing of what was done just before is lost. All other tests wait for this one.
func TestRestart_OfKCP(t *testing.T) {
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)
	tenants := []*framework.Tenant{platform.Tenant(t), platform.Tenant(t)}
	goes := claimAnew(t, tenants[0], name)

	come := crowdOf(t, name, tenants...)
	waitSomeBound(t, crowd/10, tenants...)
	framework.Delete(t, tenants[0], goes)
	framework.RestartKCP(t)
	if err := come.Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	waitUnrecorded(t, tenants[0], goes.Name)
	blocks := boundBlocks(t, crowd/2, tenants...)
	waitHeld(t, platform, pool, size(blocks...))
	blocks = append(blocks, blockOf(t, claimAnew(t, tenants[1], name)))
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
	restartShared(t)
}

// restartShared starts the controller that tests share again. Its watches have ended with kcp: the reflectors of client-go
// then pause for up to a minute, which the other tests do not expect.
func restartShared(t *testing.T) {
	t.Helper()
	shared := framework.SharedPlatform(t)
	defer shared.StartController(t) // also if it does not end well: the other tests are not to fail for that
	shared.StopController(t)
}

// waitSomeBound waits until the tenants together have so many bound claims, with others
// of the crowd still to come.
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
