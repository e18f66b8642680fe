package pool

import (
	"math/big"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
	"github.com/kcp-ipam/ipam/test/gen"
)

func capacity(total, allocated string, largest int) allocator.Capacity {
	c := allocator.Capacity{Total: new(big.Int), Allocated: new(big.Int), Available: new(big.Int), LargestFree: largest}
	c.Total.SetString(total, 10)
	c.Allocated.SetString(allocated, 10)
	c.Available.Sub(c.Total, c.Allocated)
	return c
}

func TestSucceeded(t *testing.T) {
	for _, tt := range []struct {
		name      string
		cidr      string
		capacity  allocator.Capacity
		phase     ipamv1alpha1.PoolPhase
		available string
		percent   float64
	}{
		{"empty", "10.0.0.0/24", capacity("256", "0", 24), ipamv1alpha1.PoolReady, "256", 0},
		{"a third", "10.0.0.0/24", capacity("300", "100", 25), ipamv1alpha1.PoolReady, "200", 33.3333},
		{"full", "10.0.0.0/24", capacity("256", "256", -1), ipamv1alpha1.PoolExhausted, "0", 100},
		{"all of IPv6 but one", "::/0", capacity("340282366920938463463374607431768211456", "340282366920938463463374607431768211455", 128),
			ipamv1alpha1.PoolReady, "1", 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := gen.Pool("p")
			succeeded(pool, allocator.Pool{CIDR: netip.MustParsePrefix(tt.cidr)}, tt.capacity)
			status := pool.Status
			if status.Phase != tt.phase || status.Capacity.Available != tt.available || *status.UtilizationPercent != tt.percent {
				t.Errorf("phase %s, available %s, %v %%; want %s, %s, %v %%",
					status.Phase, status.Capacity.Available, *status.UtilizationPercent, tt.phase, tt.available, tt.percent)
			}
			if (status.LargestFreePrefix == nil) != (tt.capacity.LargestFree < 0) {
				t.Errorf("largestFreePrefix = %v", status.LargestFreePrefix)
			}
		})
	}
}

func TestRefused_KeepsTheCIDROfAPoolThatHasOne(t *testing.T) {
	pool := gen.Pool("p")
	succeeded(pool, allocator.Pool{CIDR: netip.MustParsePrefix("10.0.0.0/24")}, capacity("256", "0", 24))
	refused(pool, &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: "etcd is away"})
	if pool.Status.Phase != ipamv1alpha1.PoolReady || pool.Status.AllocatedCIDR != "10.0.0.0/24" || !resolve.Ready(pool) {
		t.Errorf("status = %+v", pool.Status)
	}
	if meta.IsStatusConditionTrue(pool.Status.Conditions, ipamv1alpha1.ConditionReady) {
		t.Error("the failure does not show")
	}
}

func TestUse(t *testing.T) {
	for _, tt := range []struct {
		own   []allocator.Holder
		total int
		want  string
	}{
		{nil, 1, "the pool holds 1 block"},
		{[]allocator.Holder{{Namespace: "a", Name: "b"}, {Name: "child"}}, 2, "the pool holds 2 blocks, of claim a/b, pool child"},
		{[]allocator.Holder{{Namespace: "a", Name: "b"}}, 7, "the pool holds 7 blocks, of claim a/b and 6 others"},
	} {
		if got := use(tt.own, tt.total); got != tt.want {
			t.Errorf("use = %q, want %q", got, tt.want)
		}
	}
}
