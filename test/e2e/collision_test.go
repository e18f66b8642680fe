package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// twinA and twinB are claim names whose records have the same short name in the namespace
// default: SHA-256 of "default/<name>" agrees in its first 64 bits. Such a pair is found
// in minutes.
const (
	twinA = "2a7c25e5b575ed5f"
	twinB = "2cd5d5eac5890ce7"
)

// A tenant creates claims whose records would have the same name, in every order, with
// deletions, Retain, restarts and sweeps in between. No live claim loses its block, no
// block is allocated to two claims, and every claim has a record of its own.
func TestCollision(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t).Replica(t, "sweeping", sweeping...)
	platform.StartController(t)
	c := collision{scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}}
	pool := offer(t, platform, c.name, part(c.cidr, 26)) // four blocks of /28

	t.Log("both live: two blocks, two records")
	a := c.holds(twinA, gen.Length(28))
	b := c.holds(twinB, gen.Length(28))
	c.distinct(a, b)
	if short := recordOf(t, c.tenant, a).Name; short != ipamv1alpha1.AllocationName("default", twinA) {
		t.Errorf("the first claim's record is %s; want the short name", short)
	}
	if long := recordOf(t, c.tenant, b).Name; len(long) != len("alloc-")+64 || !strings.HasPrefix(long, ipamv1alpha1.AllocationName("default", twinB)) {
		t.Errorf("the second claim's record is %s; want alloc- and 64 digits", long)
	}
	c.restart()
	c.swept(a, b)

	t.Log("the owner of the short name goes and comes back, while the other lives")
	framework.Delete(t, c.tenant, a)
	framework.WaitGone(t, c.tenant, a.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, b)))
	c.swept(b)
	a = c.holds(twinA, gen.Length(28))
	c.distinct(a, b)

	t.Log("the owner of the long name goes and comes back")
	framework.Delete(t, c.tenant, b)
	framework.WaitGone(t, c.tenant, b.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, a)))
	c.swept(a)
	b = c.holds(twinB, gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	c.distinct(a, b)

	t.Log("the owner of the long name is retained, beside the live owner of the short one")
	framework.Delete(t, c.tenant, b)
	kept := c.retained(b)
	c.swept(a)
	c.restart()
	c.swept(a)
	again := gen.Claim(twinB, gen.OfClass(c.name), gen.Length(28))
	framework.Create(t, c.tenant, again)
	framework.WaitAllocated(t, c.tenant, again, ipamv1alpha1.ReasonAllocationRetained)
	showsRefusal(t, again, kept.Name, false)

	t.Log("the owner of the short name goes; the retained block stays, and still stands in the way of its own name alone")
	framework.Delete(t, c.tenant, a)
	framework.WaitGone(t, c.tenant, a.DeepCopy())
	waitHeld(t, c.platform, pool, size(blockOf(t, b)))
	c.swept()
	a = c.holds(twinA, gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Delete(t, c.tenant, kept)
	framework.WaitBound(t, c.tenant, again)
	c.distinct(a, again)

	t.Log("the retained record with the short name does not stand in the way of the other name")
	framework.Delete(t, c.tenant, a, again)
	c.retained(a)
	b = c.holds(twinB, gen.Length(28))
	waitHeld(t, c.platform, pool, size(blockOf(t, a), blockOf(t, b)))
	c.swept(b)

	t.Log("another workspace gets what is left, and no address of these")
	rest := blocksOf(t, bindSome(t, platform.Tenant(t), c.name, "rest", 2)...)
	disjointIn(t, pool.Spec.CIDR, append(rest, blockOf(t, a), blockOf(t, b))...)
	framework.Delete(t, c.tenant, b)
	framework.Delete(t, c.tenant, c.retained(a))
	waitHeld(t, c.platform, pool, size(rest...))
	c.platform.WaitVerified(t)
}

// The record of a claim whose short name is taken meanwhile is written again under its
// long name, and the claim names it.
func TestCollision_RecordWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	a := s.holds(twinA, gen.Length(28))
	b := s.holds(twinB, gen.Length(28))
	framework.Delete(t, framework.System(t, s.tenant.Path), recordOf(t, s.tenant, b))
	framework.Eventually(t, "the record to be written again", func(ctx context.Context) error {
		record := &ipamv1alpha1.IPAllocation{}
		record.Namespace, record.Name = b.Namespace, b.Status.BoundAllocationRef.Name
		if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(record), record); err != nil {
			return err
		}
		if record.Spec.ClaimRef == nil || record.Spec.ClaimRef.UID != b.UID {
			return errors.New("it is another claim's")
		}
		return nil
	})
	unchanged(t, s.tenant, a)
	unchanged(t, s.tenant, b)
	collision{s}.distinct(a, b)
}

// collision is a scene whose tenant has a pair of names.
type collision struct{ scene }

// distinct fails the test unless the claims have blocks that share no address, and a
// record each that names its claim.
func (c collision) distinct(claims ...*ipamv1alpha1.IPClaim) {
	c.Helper()
	seen := map[string]string{}
	for _, claim := range claims {
		record := recordOf(c.T, c.tenant, claim)
		if ref := record.Spec.ClaimRef; ref == nil || ref.Name != claim.Name || ref.UID != claim.UID ||
			record.Status.AllocatedCIDR != claim.Status.AllocatedCIDR {
			c.Errorf("the record %s of claim %s is of %+v and says %s; want this claim and %s",
				record.Name, claim.Name, ref, record.Status.AllocatedCIDR, claim.Status.AllocatedCIDR)
		}
		for _, key := range []string{record.Name, claim.Status.AllocatedCIDR} {
			if other, twice := seen[key]; twice {
				c.Errorf("claims %s and %s share %s", other, claim.Name, key)
			}
			seen[key] = claim.Name
		}
	}
}

// swept waits for two sweeps and a verification that finds nothing, and fails the test
// if one of the claims was written meanwhile.
func (c collision) swept(claims ...*ipamv1alpha1.IPClaim) {
	c.Helper()
	before := make([]*ipamv1alpha1.IPClaim, len(claims))
	for i, claim := range claims {
		before[i] = claim.DeepCopy()
	}
	c.platform.WaitSwept(c, 3)
	c.platform.WaitVerified(c)
	for _, claim := range before {
		unchanged(c.T, c.tenant, claim)
	}
}

// restart kills the controller and starts it again.
func (c collision) restart() {
	c.Helper()
	c.platform.KillController(c)
	c.platform.StartController(c)
}
