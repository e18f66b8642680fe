package facts

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
)

// Answer is the system's answer to a claim, a pool or a class.
type Answer struct {
	// Data is the block of a claim or a pool, empty while it has none. For a class it is the name.
	Data string
	// Allocated is the condition that has the answer: Ready for a class, Allocated for all others. Nil before the first
	// answer.
	Allocated *metav1.Condition
	// Stalled is set if the answer will not change without a user.
	Stalled bool
	// Remedy says what to do about the answer; empty before the first answer.
	Remedy string
}

// AnswerOf reads the answer from the status of an object.
func AnswerOf(object client.Object) Answer {
	var conditions []metav1.Condition
	var a Answer
	deciding := ipamv1alpha1.ConditionAllocated
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		a.Data, conditions = object.Status.AllocatedCIDR, object.Status.Conditions
	case *ipamv1alpha1.IPPool:
		a.Data, conditions = object.Status.AllocatedCIDR, object.Status.Conditions
	case *ipamv1alpha1.IPClass:
		a.Data, conditions, deciding = object.Name, object.Status.Conditions, ipamv1alpha1.ConditionReady
	}
	// The schema gives a new object a condition with the status Unknown. That does not answer it.
	if c := meta.FindStatusCondition(conditions, deciding); c != nil && c.Status != metav1.ConditionUnknown {
		a.Allocated = c
		a.Remedy = remedyOf(object, ipamv1alpha1.Reason(a.Allocated.Reason))
	}
	a.Stalled = meta.IsStatusConditionTrue(conditions, ipamv1alpha1.ConditionStalled)
	return a
}

// remedyOf returns the remedy for an object that the server stores. If the object waits for room, it gets its block
// without a further command.
func remedyOf(object client.Object, reason ipamv1alpha1.Reason) string {
	remedy := reason.Remedy()
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		remedy = exit.Remedy(object, reason)
	case *ipamv1alpha1.IPPool:
		remedy = reason.RemedyFor(Slash(object.Spec.PrefixLength), object.Spec.IPFamily)
	}
	if reason == ipamv1alpha1.ReasonPoolExhausted {
		remedy += "; the " + Kind(object) + " binds by itself when there is room"
	}
	return remedy
}

// Given reports whether the object has its block, or the class can be used.
func (a Answer) Given() bool {
	return a.Data != "" && a.Allocated != nil && a.Allocated.Status == metav1.ConditionTrue
}

// Missing reports whether an object names something that does not exist. Somebody has to create that, or to correct the
// name.
func (a Answer) Missing() bool {
	if a.Allocated == nil {
		return false
	}
	switch ipamv1alpha1.Reason(a.Allocated.Reason) {
	case ipamv1alpha1.ReasonClassNotFound, ipamv1alpha1.ReasonNoDefaultClass, ipamv1alpha1.ReasonPoolNotFound:
		return true
	default:
		return false
	}
}

// Reason says in words why there is no block.
func (a Answer) Reason() string {
	if a.Allocated == nil {
		return "no answer yet"
	}
	return a.Allocated.Reason + ": " + a.Allocated.Message
}

// Err returns the answer as an error; nil if the block is there.
func (a Answer) Err(object client.Object) error {
	what := fmt.Sprintf("%s %s has no block", Kind(object), Name(object))
	if _, ok := object.(*ipamv1alpha1.IPClass); ok {
		what = fmt.Sprintf("class %s cannot be used", object.GetName())
	}
	switch {
	case a.Given():
		return nil
	case a.Allocated == nil:
		return exit.Fail(exit.Unavailable, "wait, and look again with kubectl ipam "+Kind(object)+" show "+Args(object)+
			"; if there still is none, kubectl ipam check says whether the controller runs", "%s: there is no answer yet", what)
	default:
		reason := ipamv1alpha1.Reason(a.Allocated.Reason)
		return &exit.Failure{
			Code: reason.ExitCode(), Reason: reason, Hint: a.Remedy, Err: fmt.Errorf("%s: %s", what, a.Reason()),
		}
	}
}

// Describe prints why there is no block, and what to do.
func Describe(p *screen.Sheet, a Answer) {
	if a.Allocated == nil || a.Allocated.Status == metav1.ConditionTrue {
		return
	}
	p.Painted("Reason", p.Paint.Yellow(a.Allocated.Reason))
	p.Line("", a.Allocated.Message)
	p.Line("To do", a.Remedy)
}

// Warnings returns what is wrong with a pool that has its block: its gateway, blocks that a change of the spec does not
// reach, addresses that another workspace has, too, classes that cannot share the pool, and blocks that keep the pool
// or its slices from going.
func Warnings(object client.Object) []string {
	pool, ok := object.(*ipamv1alpha1.IPPool)
	if !ok {
		return nil
	}
	var warnings []string
	if now := AnswerOf(pool); now.Given() {
		if _, said, ok := strings.Cut(now.Allocated.Message, "holds "+now.Data+"; "); ok {
			warnings = append(warnings, said)
		}
	}
	if said := Overlapping(pool); said != "" {
		warnings = append(warnings, said)
	}
	if said := marked(pool, ipamv1alpha1.ConditionClassesDiffer); said != "" {
		warnings = append(warnings, "it serves none of its classes: "+said)
	}
	if said := marked(pool, ipamv1alpha1.ConditionDraining); said != "" {
		warnings = append(warnings, said)
	}
	return warnings
}

// Unstored returns who holds blocks of a pool, and until when, if some of the holders are claims that were answered and
// not stored; empty if none are. Such claims have no IPAllocation.
func Unstored(pool *ipamv1alpha1.IPPool) string {
	held := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
	if held == nil || ipamv1alpha1.Reason(held.Reason) != ipamv1alpha1.ReasonClaimNotStored {
		return ""
	}
	return held.Message
}

// Overlapping says which addresses of a pool another workspace has, too, that serves this one; empty if there are none.
func Overlapping(pool *ipamv1alpha1.IPPool) string {
	return marked(pool, ipamv1alpha1.ConditionOverlapping)
}

// marked returns the message of a condition that a pool has only while the condition is True; empty without it.
func marked(pool *ipamv1alpha1.IPPool, kind string) string {
	condition := meta.FindStatusCondition(pool.Status.Conditions, kind)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return ""
	}
	return condition.Message
}
