package e2e

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The record of a bound claim that vanishes is written again, with the same block. It is
// never taken for a release.
func TestRecord_WrittenAgain(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.pool(part(s.cidr, 27))
	claim := s.holds("web", gen.Length(28))
	before := recordOf(t, s.tenant, claim)

	framework.Delete(t, framework.System(t, s.tenant.Path), before.DeepCopy())
	again := before.DeepCopy()
	framework.Eventually(t, "the record to be written again", func(ctx context.Context) error {
		if err := s.tenant.Get(ctx, client.ObjectKeyFromObject(before), again); err != nil {
			return err
		}
		if again.UID == before.UID {
			return errors.New("it is still the former one")
		}
		return nil
	})
	if got := again.Status.AllocatedCIDR; got != claim.Status.AllocatedCIDR {
		t.Errorf("the record says %s, want %s", got, claim.Status.AllocatedCIDR)
	}
	unchanged(t, s.tenant, claim)
	waitHeld(t, s.platform, pool, size(blockOf(t, claim)))
}
