package record

import (
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A record names its block, its holder and the time of the bind. A retained record names its former holder.
func TestNew_NamesTheHolderTheBlockAndTheTime(t *testing.T) {
	t.Parallel()
	owner := ipamv1alpha1.OwnerRef{Kind: "Server", Name: "s"}
	c := gen.Claim("c", gen.OwnedBy(owner))
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	block := ledger.Block{
		Prefix: netip.MustParsePrefix("2001:db8::1/128"), Class: "internal", Policy: ledger.Delete, BoundAt: since,
	}
	r := New(c, block, Place{Name: names[0], Pool: ipamv1alpha1.PoolRef{Name: "p"}})
	name, uid := r.HeldBy()
	if r.Name != names[0] || r.Namespace != "default" || name != "c" || uid != c.UID || *r.Spec.OwnerRef != owner ||
		r.Spec.IPFamily != ipamv1alpha1.IPv6 || r.Spec.ClassName != "internal" || r.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete ||
		r.Status.AllocatedCIDR != "2001:db8::1/128" || r.Status.Address != "2001:db8::1" {
		t.Errorf("New = %+v, want the record of %+v for %s", r, block, c.Name)
	}
	ready := meta.FindStatusCondition(r.Status.Conditions, ipamv1alpha1.ConditionReady)
	if ready == nil || !ready.LastTransitionTime.Time.Equal(since) {
		t.Errorf("condition Ready is %+v, want it true since %s", ready, since)
	}
	Retain(r, c.Name, ledger.ClaimID(c.UID), since)
	if name, uid := r.HeldBy(); r.Status.Expires == nil || !r.Status.Expires.Time.Equal(since) || r.Spec.ClaimRef != nil || r.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimRetain || name != "c" || uid != c.UID {
		t.Errorf("retained it is %+v, of %s/%s; want it without a claim, of c, and with an end", r.Spec, name, uid)
	}
}
