package capi

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// refusal is why an IPAddressClaim has no address, in the words of Cluster API. It becomes the
// condition Ready.
type refusal struct {
	reason, message string
	// after is when to try again. 0: when what ends it is seen, which is watched.
	after time.Duration
}

// wayDelay is when a claim is tried again that an object of others was in the way of.
const wayDelay = 5 * time.Second

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// failed is a refusal that a person, or a change of the pool, has to end.
func failed(format string, args ...any) error {
	return &refusal{reason: capiv1.IPAddressClaimReadyAllocationFailedReason, message: fmt.Sprintf(format, args...)}
}

// inTheWay is a refusal by an object of others, whose end no watch may show.
func inTheWay(format string, args ...any) error {
	return &refusal{
		reason: capiv1.IPAddressClaimReadyAllocationFailedReason, message: fmt.Sprintf(format, args...), after: wayDelay,
	}
}

// notReady is a refusal that ends with the pool.
func notReady(format string, args ...any) error {
	return &refusal{reason: capiv1.IPAddressClaimReadyPoolNotReadyReason, message: fmt.Sprintf(format, args...)}
}

// answer is what an IPClaim without an address says, as a refusal.
func answer(claim *ipamv1alpha1.IPClaim) error {
	if claim.Status.AllocatedCIDR != "" {
		return failed("IPClaim %s holds %s, which is not one address; delete that IPClaim",
			claim.Name, claim.Status.AllocatedCIDR)
	}
	allocated := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return &refusal{reason: clusterv1.NotReadyReason, message: fmt.Sprintf("IPClaim %s has no answer yet", claim.Name)}
	}
	message := fmt.Sprintf("IPClaim %s: %s: %s", claim.Name, allocated.Reason, allocated.Message)
	return &refusal{reason: translate(ipamv1alpha1.Reason(allocated.Reason)), message: message}
}

// translate is the reason of an IPClaim in the words of Cluster API.
func translate(reason ipamv1alpha1.Reason) string {
	switch reason {
	case ipamv1alpha1.ReasonPoolExhausted:
		return capiv1.IPAddressClaimReadyPoolExhaustedReason
	case ipamv1alpha1.ReasonPoolNotFound, ipamv1alpha1.ReasonNoOfferingPool,
		ipamv1alpha1.ReasonClassNotFound, ipamv1alpha1.ReasonUnknownProvisioner:
		return capiv1.IPAddressClaimReadyPoolNotReadyReason
	default:
		return capiv1.IPAddressClaimReadyAllocationFailedReason
	}
}

// refuse says in the status why there is no address.
func refuse(claim *capiv1.IPAddressClaim, why *refusal) {
	report(claim, metav1.Condition{Status: metav1.ConditionFalse, Reason: why.reason, Message: why.message})
}

// succeed says in the status that the IPAddress of the claim's name is there.
func succeed(claim *capiv1.IPAddressClaim) {
	claim.Status.AddressRef.Name = claim.Name
	report(claim, metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason})
}

func report(claim *capiv1.IPAddressClaim, condition metav1.Condition) {
	condition.Type, condition.ObservedGeneration = capiv1.IPAddressClaimReadyCondition, claim.Generation
	meta.SetStatusCondition(&claim.Status.Conditions, condition)
}
