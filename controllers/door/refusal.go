package door

import (
	"context"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// aliases maps a reason to its name in the service that first served this API. A refusal has a cause of each name.
var aliases = map[ipamv1alpha1.Reason]metav1.CauseType{
	ipamv1alpha1.ReasonPoolExhausted: "Exhausted",
	ipamv1alpha1.ReasonRangeHeld:     "ClaimExists",
}

// unknown is the message of a CREATE that is refused because nobody can tell.
const unknown = "nobody can tell now whether the claim can be met, and its spec.unmetPolicy is Refuse: " +
	"create it again later, or leave spec.unmetPolicy out to have it wait"

// codes are the HTTP statuses by which a CREATE is refused. Any other reason is a failure of
// the system, 503.
var codes = map[ipamv1alpha1.Reason]int32{
	ipamv1alpha1.ReasonPoolExhausted:        http.StatusInsufficientStorage,
	ipamv1alpha1.ReasonQuotaExceeded:        http.StatusForbidden,
	ipamv1alpha1.ReasonAddressInUse:         http.StatusConflict,
	ipamv1alpha1.ReasonAllocationRetained:   http.StatusConflict,
	ipamv1alpha1.ReasonClassNotFound:        http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonNoDefaultClass:       http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonNoOfferingPool:       http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonPoolNotFound:         http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonUnknownProvisioner:   http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonPrefixLengthRejected: http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonFamilyMismatch:       http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonAddressOutOfRange:    http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonAddressReserved:      http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonScopeRolesMissing:    http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonChainBroken:          http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonTargetRejected:       http.StatusUnprocessableEntity,
	ipamv1alpha1.ReasonRangeHeld:            http.StatusConflict,
	ipamv1alpha1.ReasonRangeExists:          http.StatusConflict,
	ipamv1alpha1.ReasonRangeNotHeld:         http.StatusUnprocessableEntity,
}

// statusReasons are the reasons of Kubernetes for these HTTP statuses. Clients compare them.
var statusReasons = map[int32]metav1.StatusReason{
	http.StatusInsufficientStorage: "InsufficientStorage",
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusNotFound:            metav1.StatusReasonNotFound,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusUnprocessableEntity: metav1.StatusReasonInvalid,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

// refused fails the CREATE of a claim. It sets no retryAfterSeconds, because clients would then retry ten times without
// telling the user.
func refused(reason ipamv1alpha1.Reason, message string, details metav1.StatusDetails) *admissionv1.AdmissionResponse {
	code, ok := codes[reason]
	if !ok {
		code = http.StatusServiceUnavailable
	}
	details.Group = ipamv1alpha1.GroupName
	if len(details.Causes) == 0 {
		details.Causes = []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: message}}
	}
	if alias, ok := aliases[reason]; ok {
		details.Causes = append(details.Causes, metav1.StatusCause{Type: alias, Message: message})
	}
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    code,
		Reason:  statusReasons[code],
		Message: string(reason) + ": " + message,
		Details: &details,
	}}
}

// refusedBy fails the CREATE of a claim with the reason in its status.
func refusedBy(name string, answer Answer) *admissionv1.AdmissionResponse {
	allocated := meta.FindStatusCondition(answer.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return unanswered(name)
	}
	reason, message := ipamv1alpha1.Reason(allocated.Reason), allocated.Message
	details := metav1.StatusDetails{Kind: "IPClaim", Name: name}
	if reason == ipamv1alpha1.ReasonPoolExhausted {
		details.Kind, details.Name = "ippools", answer.Pool
	}
	for _, role := range answer.Roles {
		details.Causes = append(details.Causes,
			metav1.StatusCause{Type: metav1.CauseType(reason), Message: message, Field: "spec.scope." + role})
	}
	return refused(reason, message, details)
}

// unanswered fails the CREATE of a claim that has no answer, and must not be stored without one.
func unanswered(name string) *admissionv1.AdmissionResponse {
	return refused(ipamv1alpha1.ReasonError, unknown, metav1.StatusDetails{Kind: "IPClaim", Name: name})
}

// fails fails the DELETE of an object. resource is the plural of its kind.
func fails(resource, name string, code int32, message string) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: statusReasons[code], Message: message,
		Details: &metav1.StatusDetails{Group: ipamv1alpha1.GroupName, Kind: resource, Name: name},
	}}
}

// refuse fails every CREATE. The API server calls it only for claims that say Refuse and have no answer.
func refuse(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	return unanswered(req.Name), nil
}
