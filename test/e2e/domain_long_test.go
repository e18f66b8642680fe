//go:build long

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// As many pools as may share a domain all have every claim in them. However many claims
// there are, these pools take turns in having their status written, and then say it all.
func TestLong_DomainWritesOfManyPools(t *testing.T) {
	t.Parallel()
	const claims = 40
	const apart = 150 * time.Millisecond // between two turns
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	tenant := platform.Tenant(t)
	pools := make([]*ipamv1alpha1.IPPool, ledger.MaxSpacePools)
	for i := range pools {
		pools[i] = gen.Pool(fmt.Sprint("pool-", i), gen.CIDR("10.0.0.0/16"), gen.Domain("d"))
		framework.Create(t, tenant, pools[i])
	}
	for _, pool := range pools {
		framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	}
	waitIdle(t, platform, 0)
	before, began := readMeters(t, platform), time.Now()
	blocks, unanswered := make([]netip.Prefix, claims), 0
	for i := range claims {
		claim := gen.Claim(fmt.Sprint("claim-", i), gen.FromPool(pools[i].Name), gen.Length(28))
		framework.Create(t, tenant, claim)
		if claim.Status.AllocatedCIDR == "" {
			unanswered++
		}
		framework.WaitBound(t, tenant, claim)
		blocks[i] = blockOf(t, claim)
	}
	for _, pool := range pools {
		waitHeld(t, tenant, pool, size(blocks...))
	}
	turns := int(time.Since(began)/apart) + 1
	// A claim whose CREATE was answered is not patched.
	writes := readMeters(t, platform).since(before).writes["PATCH 200"] - unanswered
	t.Logf("%d writes of pools for %d claims, in %d turns", writes, claims, turns)
	if writes < len(pools) || writes > len(pools)+turns {
		t.Errorf("%d pools were written %d times for %d claims, in %d turns; want one a turn, and one more of each at most", len(pools), writes, claims, turns)
	}
}
