package promise

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A reservation is that of one name and one request, whatever becomes of the claim later.
func TestOf(t *testing.T) {
	t.Parallel()
	id := Of("w", gen.Claim("c", gen.Length(28)))
	if !Is(id) || !strings.HasPrefix(string(id), "reserved.w.") || strings.Contains(string(id), "/") {
		t.Errorf("Of = %s; want an ID of a reservation of workspace w", id)
	}
	if Is("0a2b6f0e-6a3c-4d52-9f5e-2d1f9d3c1a7b") {
		t.Error("a UID passes for a reservation")
	}
	created := gen.Claim("c", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	created.Spec.UnmetPolicy = ipamv1alpha1.UnmetRefuse
	created.UID, created.Generation = "u", 7
	created.Status.AllocatedCIDR = "10.0.0.0/28"
	if got := Of("w", created); got != id {
		t.Errorf("with other policies and a status it is %s; want %s, as before", got, id)
	}
	for name, other := range map[string]ledger.ClaimID{
		"another workspace": Of("v", gen.Claim("c", gen.Length(28))),
		"another namespace": Of("w", gen.Claim("c", gen.Length(28), gen.Namespace("n"))),
		"another name":      Of("w", gen.Claim("d", gen.Length(28))),
		"another spec":      Of("w", gen.Claim("c", gen.Length(29))),
	} {
		if other == id {
			t.Errorf("%s has the same reservation", name)
		}
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	claim := gen.Claim("c", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	if c, ok := Shown("w", claim); ok {
		t.Errorf("a claim without a block shows %+v", c)
	}
	answered := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	claim.Status.AllocatedCIDR = "10.0.0.0/28"
	outcome.Succeed(&claim.Status.Conditions, 1, "bound")
	claim.Status.Conditions[0].LastTransitionTime = metav1.NewTime(answered)
	want := allocator.Confirmation{
		Reservation: Of("w", claim), Claim: ledger.ClaimID(claim.UID), Policy: ledger.Retain,
		Prefix: netip.MustParsePrefix("10.0.0.0/28"), Answered: answered,
	}
	if got, ok := Shown("w", claim); !ok || got != want {
		t.Errorf("Shown = %+v, %t; want %+v", got, ok, want)
	}
}

func TestInFlight(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	reserved := Of("w", gen.Claim("c"))
	for _, tt := range []struct {
		name   string
		holder ledger.ClaimID
		shared bool
		age    time.Duration
		want   bool
	}{
		{"reserved", reserved, false, Grace - time.Second, true},
		{"reserved for long", reserved, false, Grace, false},
		{"confirmed", "u", false, time.Second, false},
		{"confirmed, and answered twice", "u", true, Grace - time.Second, true},
		{"answered twice, long ago", "u", true, Grace, false},
	} {
		block := ledger.Block{Holder: ledger.Holder{Claim: tt.holder}, Shared: tt.shared, BoundAt: now.Add(-tt.age)}
		if got := InFlight(block, now); got != tt.want {
			t.Errorf("%s: InFlight = %t, want %t", tt.name, got, tt.want)
		}
	}
}
