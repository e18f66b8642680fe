package e2e

import (
	"context"
	"fmt"
	"net/netip"
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
	must.Do(t, come.Wait())
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

// crowd is how many claims come at once, of two tenants together.
const crowd = 200

// lengths are those that the claims of a crowd ask for in turn.
var lengths = []int32{24, 29, 32, 27, 26, 30, 28, 25, 31, 29}

// crowdOf makes every tenant create its share of claims by a class, several at a time. The
// group returned ends when all of them are made. A claim that cannot be made while a
// server is away is made when it is back.
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

// insist creates an object, again and again until it is there.
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

// boundBlocks waits until each tenant has so many claims, and all of them are bound and
// recorded, and returns their blocks. It fails the test if one has not the length asked for, or if the
// records of a tenant are not those of its claims.
func boundBlocks(t *testing.T, each int, tenants ...*framework.Tenant) []netip.Prefix {
	t.Helper()
	var blocks []netip.Prefix
	for _, tenant := range tenants {
		claims := &ipamv1alpha1.IPClaimList{}
		framework.Eventually(t, fmt.Sprintf("%d bound claims in %s", each, tenant.Path), func(ctx context.Context) error {
			if err := tenant.List(ctx, claims); err != nil {
				return err
			}
			if bound := countBound(claims); bound != each || len(claims.Items) != each {
				return fmt.Errorf("there are %d, of %d claims", bound, len(claims.Items))
			}
			return nil
		})
		recorded := recordsByClaim(t, tenant, each)
		for i := range claims.Items {
			claim := &claims.Items[i]
			block := blockOf(t, claim)
			if block.Bits() != int(claim.Spec.PrefixLength) {
				t.Errorf("claim %s got %s", claim.Name, block)
			}
			if recorded[claim.Name] != block.String() {
				t.Errorf("claim %s has %s, recorded is %q", claim.Name, block, recorded[claim.Name])
			}
			blocks = append(blocks, block)
		}
		if len(recorded) != each {
			t.Errorf("%s has %d records of %d claims", tenant.Path, len(recorded), each)
		}
	}
	return blocks
}

func countBound(claims *ipamv1alpha1.IPClaimList) int {
	bound := 0
	for _, claim := range claims.Items {
		if claim.Status.Phase == ipamv1alpha1.ClaimBound {
			bound++
		}
	}
	return bound
}

// recordsByClaim waits for so many IPAllocations in a workspace, and returns their blocks by the
// name of the claim.
func recordsByClaim(t *testing.T, c client.Reader, want int) map[string]string {
	t.Helper()
	records := &ipamv1alpha1.IPAllocationList{}
	framework.Eventually(t, "the records of the claims", func(ctx context.Context) error {
		if err := c.List(ctx, records); err != nil {
			return err
		}
		if len(records.Items) < want {
			return fmt.Errorf("there are %d, want %d", len(records.Items), want)
		}
		return nil
	})
	recorded := map[string]string{}
	for _, record := range records.Items {
		if record.Spec.ClaimRef == nil {
			t.Errorf("IPAllocation %s names no claim", record.Name)
			continue
		}
		recorded[record.Spec.ClaimRef.Name] = record.Status.AllocatedCIDR
	}
	return recorded
}
