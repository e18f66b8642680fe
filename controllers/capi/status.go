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

// refusal says in the words of Cluster API why an IPAddressClaim has no address. It becomes the condition Ready.
type refusal struct {
	reason, message string
	// after is when to try again; 0: when a watch shows that the reason has gone.
	after time.Duration
}

// wayDelay is when to try again if an object of others is in the way of a claim.
const wayDelay = 5 * time.Second

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// failed returns a refusal that lasts until a person acts, or the pool changes.
func failed(format string, args ...any) error {
	return &refusal{reason: capiv1.IPAddressClaimReadyAllocationFailedReason, message: fmt.Sprintf(format, args...)}
}

// inTheWay returns a refusal because of an object of others. Perhaps no watch shows when that object goes.
func inTheWay(format string, args ...any) error {
	return &refusal{
		reason: capiv1.IPAddressClaimReadyAllocationFailedReason, message: fmt.Sprintf(format, args...), after: wayDelay,
	}
}

// notReady returns a refusal that lasts until the pool is ready.
func notReady(format string, args ...any) error {
	return &refusal{reason: capiv1.IPAddressClaimReadyPoolNotReadyReason, message: fmt.Sprintf(format, args...)}
}

// answer returns the answer to an IPClaim without an address, as a refusal.
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

// translate returns the reason of Cluster API for a reason of an IPClaim.
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

// refuse sets the status of an IPAddressClaim to say why it has no address.
func refuse(claim *capiv1.IPAddressClaim, why *refusal) {
	report(claim, metav1.Condition{Status: metav1.ConditionFalse, Reason: why.reason, Message: why.message})
}

// succeed sets the status of an IPAddressClaim to say that its IPAddress is there. Both have the same name.
func succeed(claim *capiv1.IPAddressClaim) {
	claim.Status.AddressRef.Name = claim.Name
	report(claim, metav1.Condition{Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason})
}

func report(claim *capiv1.IPAddressClaim, condition metav1.Condition) {
	condition.Type, condition.ObservedGeneration = capiv1.IPAddressClaimReadyCondition, claim.Generation
	meta.SetStatusCondition(&claim.Status.Conditions, condition)
}
