package e2e

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// twinA and twinB are claim names whose records have the same short name in the namespace default: the first 64 bits
// of the SHA-256 of "default/<name>" agree. Such a pair is found in minutes.
const (
	twinA = "2a7c25e5b575ed5f"
	twinB = "2cd5d5eac5890ce7"
)

// If the short name of a claim's record is taken meanwhile, the record is written again under its long name, and the
// claim names it.
func TestCollision_WritesTheRecordUnderItsLongName(t *testing.T) {
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

// collision is a scene whose tenant uses the names twinA and twinB.
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
