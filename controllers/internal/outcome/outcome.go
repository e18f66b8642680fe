// Package outcome turns the answer to a claim or pool into its conditions:
// Allocated, which is the answer, and the kstatus trio Ready, Reconciling and
// Stalled, which tools read (https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus).
package outcome

import (
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// maxMessage bounds a condition's message, in bytes.
const maxMessage = 1024

// Refusal is the reason why a claim or a pool did not get its block. It is an answer, not a fault: it becomes a
// condition, and is not retried by itself.
type Refusal struct {
	Reason  ipamv1alpha1.Reason
	Message string
	// Pool is the pool that has no room, if no other pool was asked. Empty: several pools were asked, or the system makes
	// the pool.
	Pool string
	// Roles are the roles that the scope of the claim lacks.
	Roles []string
}

func (r *Refusal) Error() string {
	return string(r.Reason) + ": " + r.Message
}

// Stalled reports whether only a change of the object can end the refusal. Otherwise the object waits.
func Stalled(reason ipamv1alpha1.Reason) bool {
	switch reason {
	case ipamv1alpha1.ReasonPrefixLengthRejected, ipamv1alpha1.ReasonFamilyMismatch,
		ipamv1alpha1.ReasonAddressOutOfRange, ipamv1alpha1.ReasonAddressReserved, ipamv1alpha1.ReasonOverlap,
		ipamv1alpha1.ReasonScopeRolesMissing, ipamv1alpha1.ReasonTargetRejected, ipamv1alpha1.ReasonUniqueWithinDiffers:
		return true
	default:
		return false
	}
}

// Succeed sets the conditions of an object that has its block.
func Succeed(conditions *[]metav1.Condition, generation int64, message string) {
	set := setter(conditions, generation)
	set(ipamv1alpha1.ConditionAllocated, metav1.ConditionTrue, ipamv1alpha1.ReasonAllocationSucceeded, message)
	set(ipamv1alpha1.ConditionReady, metav1.ConditionTrue, ipamv1alpha1.ReasonAllocationSucceeded, message)
	meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionReconciling)
	meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionStalled)
}

// Unfit sets the conditions of a pool that has its block, and gives none of it out. r has the reason.
func Unfit(conditions *[]metav1.Condition, generation int64, message string, r *Refusal) {
	set := setter(conditions, generation)
	set(ipamv1alpha1.ConditionAllocated, metav1.ConditionTrue, ipamv1alpha1.ReasonAllocationSucceeded, message)
	unready(conditions, generation, r, Stalled(r.Reason))
}

// Refuse sets the conditions of an object that was refused.
func Refuse(conditions *[]metav1.Condition, generation int64, r *Refusal) {
	setter(conditions, generation)(ipamv1alpha1.ConditionAllocated, metav1.ConditionFalse, r.Reason, r.Message)
	unready(conditions, generation, r, Stalled(r.Reason))
}

// unready sets the kstatus trio of an object that is not ready.
func unready(conditions *[]metav1.Condition, generation int64, r *Refusal, stalled bool) {
	set := setter(conditions, generation)
	set(ipamv1alpha1.ConditionReady, metav1.ConditionFalse, r.Reason, r.Message)
	is, isNot := ipamv1alpha1.ConditionReconciling, ipamv1alpha1.ConditionStalled
	if stalled {
		is, isNot = isNot, is
	}
	set(is, metav1.ConditionTrue, r.Reason, r.Message)
	meta.RemoveStatusCondition(conditions, isNot)
}

// Retry sets the conditions of an object that keeps its block, and for which another step has failed.
func Retry(conditions *[]metav1.Condition, generation int64, r *Refusal) {
	set := setter(conditions, generation)
	set(ipamv1alpha1.ConditionReady, metav1.ConditionFalse, r.Reason, r.Message)
	set(ipamv1alpha1.ConditionReconciling, metav1.ConditionTrue, r.Reason, r.Message)
}

// Ready sets the conditions of a class. A class gets no block. r says why the class was refused; nil: the class is
// sound.
func Ready(conditions *[]metav1.Condition, generation int64, r *Refusal) {
	if r == nil {
		setter(conditions, generation)(ipamv1alpha1.ConditionReady, metav1.ConditionTrue, ipamv1alpha1.ReasonValidated,
			"claims may use the class")
		meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionReconciling)
		meta.RemoveStatusCondition(conditions, ipamv1alpha1.ConditionStalled)
		return
	}
	unready(conditions, generation, r, !Pending(r))
}

// Pending reports whether a refused class waits for a change of another class or of a pool. Any other refused class
// waits for its own author.
func Pending(r *Refusal) bool {
	return r != nil &&
		(r.Reason == ipamv1alpha1.ReasonDefaultConflict || r.Reason == ipamv1alpha1.ReasonUniqueWithinDiffers)
}

// Observe sets the observed generation of all conditions. It is for records: only the system writes them, so it knows
// which generation its write makes.
func Observe(conditions []metav1.Condition, generation int64) {
	for i := range conditions {
		conditions[i].ObservedGeneration = generation
	}
}

// Failing reports whether the conditions say that the controller has failed and will retry.
func Failing(conditions []metav1.Condition) bool {
	ready := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionReady)
	return ready != nil && ready.Reason == string(ipamv1alpha1.ReasonError)
}

// Report sets a condition that exists only while it is true. If r is nil, Report removes the condition.
func Report(conditions *[]metav1.Condition, generation int64, kind string, r *Refusal) {
	if r == nil {
		meta.RemoveStatusCondition(conditions, kind)
		return
	}
	setter(conditions, generation)(kind, metav1.ConditionTrue, r.Reason, r.Message)
}

// Changed reports whether the answer in the conditions differs from the refusal.
func Changed(conditions []metav1.Condition, r *Refusal) bool {
	ready := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionReady)
	return ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != string(r.Reason)
}

func setter(
	conditions *[]metav1.Condition, generation int64,
) func(string, metav1.ConditionStatus, ipamv1alpha1.Reason, string) {
	return func(kind string, status metav1.ConditionStatus, reason ipamv1alpha1.Reason, message string) {
		meta.SetStatusCondition(conditions, metav1.Condition{
			Type:               kind,
			Status:             status,
			Reason:             string(reason),
			Message:            truncate(message),
			ObservedGeneration: generation,
		})
	}
}

func truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const ellipsis = "…"
	cut := maxMessage - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + ellipsis
}
