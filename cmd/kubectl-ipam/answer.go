package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
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
		return fail(exitUnavailable, "it may come: look again with kubectl ipam "+kindOf(object)+" show "+object.GetName()+
			"; if it does not, have the controller looked at", "%s: there is no answer yet", what)
	default:
		return refused(what, *a.allocated)
	}
}

// errGone ends a wait for an object that was deleted meanwhile.
var errGone = errors.New("it was deleted meanwhile")

// watched looks at an object as it is now and whenever it changes, until check is
// satisfied, and leaves it as last seen.
func watched(ctx context.Context, c client.WithWatch, object client.Object, check func() bool) error {
	if check() {
		return nil
	}
	list, err := listFor(object)
	if err != nil {
		return err
	}
	lists := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return c.Watch(ctx, list, client.InNamespace(object.GetNamespace()), &client.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName()), Raw: &options,
		})
	}}
	_, err = watchtools.Until(ctx, object.GetResourceVersion(), lists, func(event watch.Event) (bool, error) {
		switch event.Type {
		case watch.Deleted:
			return false, errGone
		case watch.Error:
			return false, apierrors.FromObject(event.Object)
		default:
		}
		if seen, ok := event.Object.(client.Object); ok {
			become(object, seen)
		}
		return check(), nil
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// become makes an object what was seen of it.
func become(object, seen client.Object) {
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		seen.(*ipamv1alpha1.IPClaim).DeepCopyInto(object)
	case *ipamv1alpha1.IPPool:
		seen.(*ipamv1alpha1.IPPool).DeepCopyInto(object)
	case *ipamv1alpha1.IPClass:
		seen.(*ipamv1alpha1.IPClass).DeepCopyInto(object)
	}
}

func listFor(object client.Object) (client.ObjectList, error) {
	switch object.(type) {
	case *ipamv1alpha1.IPClaim:
		return &ipamv1alpha1.IPClaimList{}, nil
	case *ipamv1alpha1.IPPool:
		return &ipamv1alpha1.IPPoolList{}, nil
	case *ipamv1alpha1.IPClass:
		return &ipamv1alpha1.IPClassList{}, nil
	default:
		return nil, fmt.Errorf("%T is nothing to wait for", object)
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

// nameOf is the name of an object, with its namespace if it has one.
func nameOf(object client.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}
