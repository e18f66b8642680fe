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
)

// crowd is how many claims come at once, of two tenants together.
const crowd = 200

// lengths are those that the claims of a crowd ask for in turn.
var lengths = []int32{24, 29, 32, 27, 26, 30, 28, 25, 31, 29}

// Claims of many lengths that come all at once get blocks that share no address, each of
// the length asked for, and the pool counts them to the last address.
func TestCrowd_OnOnePool(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name, cidr := framework.Name(t), platform.CIDR(t)
	pool := offer(t, platform, name, cidr)

	tenants := []*framework.Tenant{platform.Tenant(t), platform.Tenant(t)}
	come := crowdOf(t, name, tenants...)
	if err := come.Wait(); err != nil {
		t.Fatalf("Wait: %v", err)
	}
	blocks := boundBlocks(t, crowd/2, tenants...)
	disjointIn(t, cidr, blocks...)
	waitHeld(t, platform, pool, size(blocks...))
}

// crowdOf has every tenant make its share of claims by a class, several at a time. The
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
