//go:build long

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// A tenant that makes hundreds of claims at once gets what its limit allows. The others
// are answered, too, and then cost nothing more; another tenant is served in the midst.
func TestLong_StormOfOneTenant(t *testing.T) {
	t.Parallel()
	const claims, allowed = 200, 32
	platform, tenant, pool := alone(t)
	other := platform.Tenant(t)
	framework.Update(t, platform, pool, func(pool *ipamv1alpha1.IPPool) {
		pool.Spec.MaxPerConsumer = ipamv1alpha1.AddressCount(strconv.Itoa(allowed))
	})
	waitIdle(t, platform, 0)
	before := readMeters(t, platform)

	storm := &errgroup.Group{}
	begun := make(chan struct{})
	storm.Go(func() error {
		each := &errgroup.Group{}
		each.SetLimit(16)
		for i := range claims {
			if i == claims/3 {
				close(begun)
			}
			claim := gen.Claim(fmt.Sprint("storm-", i), gen.OfClass(pool.Name), gen.Length(32))
			each.Go(func() error { return insist(t.Context(), tenant, claim) })
		}
		return each.Wait()
	})
	<-begun
	quiet := gen.Claim("quiet", gen.OfClass(pool.Name), gen.Length(28))
	framework.Bind(t, other, quiet)
	must.Do(t, storm.Wait())
	bound := waitAnswers(t, tenant, allowed, claims-allowed)
	waitRest(t, platform) // it sees each of its answers once more, when the watch brings it
	// One look answers, and one sees what the first has written. A few come for other reasons.
	if n := looks(readMeters(t, platform).since(before)); n >= 3*(claims+1) {
		t.Errorf("%d looks at %d claims; want two at each", n, claims+1)
	}

	before = readMeters(t, platform)
	framework.Delete(t, tenant, bound[0])
	framework.WaitGone(t, tenant, bound[0])
	waitAnswers(t, tenant, allowed, claims-allowed-1)
	waitIdle(t, platform, 0)
	if n := looks(readMeters(t, platform).since(before)); n >= 20 {
		t.Errorf("%d looks for one claim that goes and one that gets its block; nobody else is to be looked at", n)
	}
	unchanged(t, other, quiet)
}

// waitAnswers waits until so many claims of a tenant are bound and so many over its
// limit, and returns the bound ones.
func waitAnswers(t *testing.T, tenant *framework.Tenant, bound, over int) []*ipamv1alpha1.IPClaim {
	t.Helper()
	var held []*ipamv1alpha1.IPClaim
	framework.Eventually(t, "every claim to have its answer", func(ctx context.Context) error {
		claims := &ipamv1alpha1.IPClaimList{}
		if err := tenant.List(ctx, claims); err != nil {
			return err
		}
		held = nil
		refused := 0
		for i := range claims.Items {
			answer := meta.FindStatusCondition(claims.Items[i].Status.Conditions, ipamv1alpha1.ConditionAllocated)
			switch {
			case answer == nil:
			case answer.Status == metav1.ConditionTrue:
				held = append(held, &claims.Items[i])
			case answer.Reason == string(ipamv1alpha1.ReasonQuotaExceeded):
				refused++
			}
		}
		if len(held) != bound || refused != over {
			return fmt.Errorf("of %d claims %d are bound, and %d over the limit", len(claims.Items), len(held), refused)
		}
		return nil
	})
	return held
}

// looks counts the passes over claims.
func looks(m meters) int {
	sum := 0
	for pass, n := range m.passes {
		if strings.HasPrefix(pass, "claim ") {
			sum += n
		}
	}
	return sum
}
