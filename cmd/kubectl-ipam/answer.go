package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// answer is what the system says to a claim, a pool or a class.
type answer struct {
	// data is the block of a claim or a pool, empty while there is none, or the name of a class.
	data string
	// allocated is the condition that answers: Ready on a class, else Allocated. Nil before
	// the first answer.
	allocated *metav1.Condition
	// stalled answers do not change by waiting.
	stalled bool
}

func answerOf(object client.Object) answer {
	var conditions []metav1.Condition
	var a answer
	deciding := ipamv1alpha1.ConditionAllocated
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		a.data, conditions = object.Status.AllocatedCIDR, object.Status.Conditions
	case *ipamv1alpha1.IPPool:
		a.data, conditions = object.Status.AllocatedCIDR, object.Status.Conditions
	case *ipamv1alpha1.IPClass:
		a.data, conditions, deciding = object.Name, object.Status.Conditions, ipamv1alpha1.ConditionReady
	}
	a.allocated = meta.FindStatusCondition(conditions, deciding)
	a.stalled = meta.IsStatusConditionTrue(conditions, ipamv1alpha1.ConditionStalled)
	return a
}

// given reports whether the object has its block, or the class can be used.
func (a answer) given() bool {
	return a.data != "" && a.allocated != nil && a.allocated.Status == metav1.ConditionTrue
}

// missing reports whether what the object names does not exist: somebody has to create it or
// to correct the name.
func (a answer) missing() bool {
	if a.allocated == nil {
		return false
	}
	switch ipamv1alpha1.Reason(a.allocated.Reason) {
	case ipamv1alpha1.ReasonClassNotFound, ipamv1alpha1.ReasonNoDefaultClass, ipamv1alpha1.ReasonPoolNotFound:
		return true
	default:
		return false
	}
}

// reason is why there is no block, in words.
func (a answer) reason() string {
	if a.allocated == nil {
		return "no answer yet"
	}
	return a.allocated.Reason + ": " + a.allocated.Message
}

// err is the answer as an error; nil when the block is there.
func (a answer) err(object client.Object) error {
	what := fmt.Sprintf("%s %s has no block", kindOf(object), nameOf(object))
	if _, ok := object.(*ipamv1alpha1.IPClass); ok {
		what = fmt.Sprintf("class %s cannot be used", object.GetName())
	}
	switch {
	case a.given():
		return nil
	case a.allocated == nil:
		return fail(exitUnavailable, "wait, and look again with kubectl ipam "+kindOf(object)+" show "+argsOf(object)+
			"; if there still is none, kubectl ipam check says whether the controller runs", "%s: there is no answer yet", what)
	default:
		return refused(what, *a.allocated)
	}
}

// kindOf is the word for the kind of an object.
func kindOf(object client.Object) string {
	switch object.(type) {
	case *ipamv1alpha1.IPPool:
		return "pool"
	case *ipamv1alpha1.IPClass:
		return "class"
	case *ipamv1alpha1.IPAllocation:
		return "allocation"
	default:
		return "claim"
	}
}

// argsOf are the arguments by which a command finds an object, whatever the current namespace is.
func argsOf(object client.Object) string { return argsFor(client.ObjectKeyFromObject(object)) }

func argsFor(key client.ObjectKey) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Name + " -n " + key.Namespace
}

// nameOf is the name of an object, with its namespace if it has one.
func nameOf(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
