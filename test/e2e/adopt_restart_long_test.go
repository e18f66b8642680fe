//go:build long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The ledger is restored from a snapshot while a shard is away, so that what was published
// there cannot be adopted. Until the shard is back nothing is allocated from the pool,
// however often the controller is killed, and however many blocks are released meanwhile.
func TestLong_AdoptRestartsWhileAShardIsAway(t *testing.T) {
	t.Parallel()
	l := newLossy(t)
	here := framework.Admin(t, l.platform.Path)
	var goes []*ipamv1alpha1.IPClaim // in the platform's own workspace, which no shard hides
	for i := range 4 {
		claim := gen.Claim(fmt.Sprint("goes-", i), gen.OfClass(l.name), gen.Length(28))
		framework.Create(t, here, claim)
		goes = append(goes, claim)
	}
	framework.WaitBound(t, here, goes...)
	stays := l.holds("stays", gen.Length(28))
	l.published(append(goes, stays)...)
	l.save()
	since := l.holds("since", gen.Length(28))
	l.published(append(goes, stays, since)...)

	l.wipe()
	l.restore()
	l.link.Cut()
	late := gen.Claim("late", gen.OfClass(l.name), gen.Length(28))
	framework.Create(t, here, late)
	for _, claim := range goes {
		l.platform.LaunchController(t) // it is not ready: no endpoint has listed anything
		framework.WaitAllocated(t, here, late, ipamv1alpha1.ReasonError)
		framework.Delete(t, here, claim)
		framework.Eventually(t, "the block of a claim that is deleted to be released", func(context.Context) error {
			if !strings.Contains(l.platform.Metrics(t), "\nipam_ledger_blocks_released_total 1\n") {
				return errors.New("nothing is released")
			}
			return nil
		})
		l.platform.KillController(t)
	}
	l.platform.LaunchController(t)
	framework.WaitAllocated(t, here, late, ipamv1alpha1.ReasonError)
	if says := meta.FindStatusCondition(late.Status.Conditions, ipamv1alpha1.ConditionAllocated).Message; !strings.Contains(says, "frozen") {
		t.Errorf("the claim says %q; want it to say that the pool is frozen", says)
	}

	l.link.Restore()
	framework.WaitBound(t, here, late)
	disjointIn(t, l.cidr, l.blocks(stays, since, late)...)
	l.kept(stays, since)
	l.published(stays, since, late)
	l.platform.WaitVerified(t, "--etcd-data-dir="+l.dir)
}
