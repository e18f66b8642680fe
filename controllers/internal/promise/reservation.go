package promise

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Grace is how long after its last answer a reservation is kept at least. The API server
// ends a request after 60 s: then no CREATE that was answered can still succeed. The
// rest is for the clocks of replicas, which may differ by that much.
const Grace = 75 * time.Second

// Of names the reservation of a claim. The spec is part of it: CREATEs of one name that ask for
// different blocks must not be answered with the same one. The policies are not, as a claim
// may change the first, and the others say nothing about the block.
func Of(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) ledger.ClaimID {
	spec := claim.Spec
	spec.ReclaimPolicy, spec.UnmetPolicy, spec.RetainedPolicy = "", "", ""
	text, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("promise: a spec of strings and numbers is not encoded: %v", err))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s\n%s", claim.Namespace, claim.Name, text))
	return ledger.ReservationID(cluster.Tenant(claim.Namespace), hex.EncodeToString(sum[:]))
}

// Is reports whether a holder is a reservation.
func Is(holder ledger.ClaimID) bool { return strings.HasPrefix(string(holder), "reserved.") }

// Shown says which reservation a claim was answered with, as its status shows it. ok is false
// if it shows no block, as one that holds a range.
func Shown(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) (c allocator.Confirmation, ok bool) {
	prefix, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	if err != nil || claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
		return allocator.Confirmation{}, false
	}
	c = allocator.Confirmation{
		Reservation: Of(cluster, claim),
		Claim:       ledger.ClaimID(claim.UID),
		Policy:      ledger.ReclaimPolicy(claim.Spec.ReclaimPolicy),
		Prefix:      prefix,
	}
	c.Answered = Answered(claim)
	return c, true
}

// Answered returns when the CREATE of a claim was answered with the block that it shows, to the second;
// zero if it shows no answer.
func Answered(claim *ipamv1alpha1.IPClaim) time.Time {
	allocated := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return time.Time{}
	}
	return allocated.LastTransitionTime.Time
}

// InFlight reports whether a CREATE that was answered with the block may still succeed, and
// leave a claim that shows the block: it is not confirmed yet, or it was answered to more than
// one CREATE.
func InFlight(b ledger.Block, now time.Time) bool {
	return (Is(b.Holder.Claim) || b.Shared) && now.Sub(b.BoundAt) < Grace
}
