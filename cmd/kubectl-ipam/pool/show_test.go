package pool

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// The map shows what is seen, and counts what is not.
func TestPoolShow(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), gen.Lengths{Min: 25, Max: 32}, gen.Excludes("192.0.2.128/27"),
		gen.Reserves(1, 2, 30), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:team-b"}, gen.Backs("edge"), gen.Cooldown("30s"), stage.HourAgo),
		"192.0.2.0/24", ipamv1alpha1.IPv4, 42.1875, 26)
	pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "256", Allocated: "108", Available: "148", Cooling: "32"}
	pool.Status.NextRelease = &metav1.Time{Time: stage.Noon.Add(12 * time.Second)}
	pool.Annotations = map[string]string{ipamv1alpha1.AnnotationDescription: "hall 1"}
	web := gen.Allocation("web", "lab", "192.0.2.16/28", gen.ByClass("edge"), stage.HourAgo)
	held := []space.Holding{
		{Block: netip.MustParsePrefix("192.0.2.16/28"), Holder: space.HoldingOf(web).Holder, Class: "edge", Since: web.CreationTimestamp},
		{Block: netip.MustParsePrefix("192.0.2.32/32"), Holder: "retained for default/old", Since: web.CreationTimestamp},
	}
	s := stage.New(t)
	if err := describePool(s.Session, pool, held); err != nil {
		t.Fatalf("describePool: %v", err)
	}
	stage.Golden(t, "pool_show", s.Printed.String())
}

// A pool that has its block may still be wrong, and shows how.
func TestPoolShow_WarnsOfGatewayAndOverlap(t *testing.T) {
	pool := stage.Ready(gen.Pool("lab", gen.CIDR("192.0.2.0/24"), stage.HourAgo), "192.0.2.0/24", ipamv1alpha1.IPv4, 0, 24)
	pool.Status.Conditions[0].Message += "; spec.gateway 192.0.2.2 lies in 192.0.2.2/32, which claim default/web holds: release that, or write another gateway"
	pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{
		Type: ipamv1alpha1.ConditionOverlapping, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonForeignSpace), Message: "192.0.2.0/24 overlaps others",
	})
	s := stage.New(t)
	if err := describePool(s.Session, pool, nil); err != nil {
		t.Fatalf("describePool: %v", err)
	}
	for _, want := range []string{"which claim default/web holds", "overlaps others"} {
		if !strings.Contains(s.Printed.String(), want) {
			t.Errorf("it shows %s; want %q", s.Printed, want)
		}
	}
}
