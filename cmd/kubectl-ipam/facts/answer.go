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

// Answer is what the system says to a claim, a pool or a class.
type Answer struct {
	// Data is the block of a claim or a pool, empty while there is none, or the name of a class.
	Data string
	// Allocated is the condition that answers: Ready on a class, else Allocated. Nil before
	// the first answer.
	Allocated *metav1.Condition
	// Stalled answers do not change by waiting.
	Stalled bool
	// Remedy is what to do about the answer; empty before the first one.
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
	// The schema sets an unknown condition on an object that nobody has answered.
	if c := meta.FindStatusCondition(conditions, deciding); c != nil && c.Status != metav1.ConditionUnknown {
		a.Allocated = c
		a.Remedy = remedyOf(object, ipamv1alpha1.Reason(a.Allocated.Reason))
	}
	a.Stalled = meta.IsStatusConditionTrue(conditions, ipamv1alpha1.ConditionStalled)
	return a
}

// remedyOf returns the remedy for an object that the server stores. One that waits for room gets its block without a
// command.
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

// Missing reports whether what the object names does not exist: somebody has to create it or
// to correct the name.
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

// Reason is why there is no block, in words.
func (a Answer) Reason() string {
	if a.Allocated == nil {
		return "no answer yet"
	}
	return a.Allocated.Reason + ": " + a.Allocated.Message
}

// Err is the answer as an error; nil when the block is there.
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

// Describe says why there is no block, and what to do.
func Describe(p *screen.Sheet, a Answer) {
	if a.Allocated == nil || a.Allocated.Status == metav1.ConditionTrue {
		return
	}
	p.Painted("Reason", p.Paint.Yellow(a.Allocated.Reason))
	p.Line("", a.Allocated.Message)
	p.Line("To do", a.Remedy)
}

// Warnings returns the faults of a pool that has its block: of its gateway, of blocks that a change of the spec does
// not reach, of addresses that are those of another workspace, too, of classes that cannot share it, and of blocks that
// keep it or its slices from going.
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

// Unstored names the holders of a pool if some of them are claims that were answered with a block and are not stored,
// and says until when their blocks are held; empty if none are. No IPAllocation shows them.
func Unstored(pool *ipamv1alpha1.IPPool) string {
	held := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionInUse)
	if held == nil || ipamv1alpha1.Reason(held.Reason) != ipamv1alpha1.ReasonClaimNotStored {
		return ""
	}
	return held.Message
}

// Overlapping says which addresses of a pool are also those of another workspace that serves this one; empty if none
// is.
func Overlapping(pool *ipamv1alpha1.IPPool) string {
	return marked(pool, ipamv1alpha1.ConditionOverlapping)
}

// marked returns the message of a condition of a pool that exists only while it is True; empty without it.
func marked(pool *ipamv1alpha1.IPPool, kind string) string {
	condition := meta.FindStatusCondition(pool.Status.Conditions, kind)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		return ""
	}
	return condition.Message
}
