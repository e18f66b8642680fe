package ipamclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
)

var (
	// ErrTerminating is the error for a name whose claim is being deleted, and is held by a finalizer. Repeat the
	// request when that claim is gone.
	ErrTerminating = errors.New("it is being deleted; try again when it is gone")
	// ErrGone is the error of waiting for an object that was deleted meanwhile.
	ErrGone = errors.New("it was deleted meanwhile")
)

// UnmetError is the answer to a claim that has no block.
type UnmetError struct {
	// Claim names the claim.
	Claim client.ObjectKey
	// Reason is the reason of the condition Allocated, or of the refusal of the CREATE. It is
	// empty while there is no answer.
	Reason ipamv1alpha1.Reason
	// Message says in words why, and what to write instead. Programs decide by Reason.
	Message string
	// Stored: the claim is on the server, and binds by itself when the cause is gone. If false, the server refused it.
	Stored bool
	// Stalled: the claim can never be met as it is written, unless its class or pool changes.
	Stalled bool
	// Err is what ended the request: the refusal of the server, or the end of the wait. It is nil if the answer itself
	// ended it.
	Err error
}

// Error implements error.
func (e *UnmetError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "claim %s ", e.Claim)
	switch {
	case !e.Stored:
		text.WriteString("is not created: ")
	default:
		text.WriteString("has no block: ")
	}
	if e.Reason == "" {
		text.WriteString("there is no answer yet")
	} else {
		fmt.Fprintf(&text, "%s: %s", e.Reason, e.Message)
	}
	if e.Stored && e.Err != nil {
		fmt.Fprintf(&text, " (%v)", e.Err)
	}
	return text.String()
}

// Unwrap returns Err.
func (e *UnmetError) Unwrap() error { return e.Err }

// ConflictError is the error for a name that is taken by a claim for something else.
type ConflictError struct {
	// Claim is the claim that has the name.
	Claim *ipamv1alpha1.IPClaim
	// Differs lists the fields that differ, by name.
	Differs []Difference
}

// Difference is a field in which what was asked for differs from what is there. Values are JSON,
// and empty where the field is absent.
type Difference struct{ Field, Wanted, There string }

// String says which two values there are.
func (d Difference) String() string {
	switch {
	case d.There == "":
		return fmt.Sprintf("%s is missing (wanted: %s)", d.Field, d.Wanted)
	case d.Wanted == "":
		return fmt.Sprintf("%s is %s (not asked for)", d.Field, d.There)
	default:
		return fmt.Sprintf("%s is %s, not %s", d.Field, d.There, d.Wanted)
	}
}

// Error implements error.
func (e *ConflictError) Error() string {
	words := make([]string, len(e.Differs))
	for i, d := range e.Differs {
		words[i] = d.String()
	}
	return fmt.Sprintf("there is a claim %s already, and it asks for something else: %s",
		client.ObjectKeyFromObject(e.Claim), strings.Join(words, ", "))
}

// ReasonOf is the reason of a claim without a block: that of an [UnmetError], or of an error of
// the API server that refused a CREATE. It is empty for any other error, and for nil.
func ReasonOf(err error) ipamv1alpha1.Reason {
	if unmet, ok := errors.AsType[*UnmetError](err); ok {
		return unmet.Reason
	}
	cause, _ := causeOf(err)
	return ipamv1alpha1.Reason(cause.Type)
}

// causeOf finds the cause with a reason of this API in an error of the API server.
func causeOf(err error) (_ metav1.StatusCause, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return metav1.StatusCause{}, false
	}
	causes := status.Status().Details.Causes
	at := slices.IndexFunc(causes, func(c metav1.StatusCause) bool { return ipamv1alpha1.Reason(c.Type).Remedy() != "" })
	if at < 0 {
		return metav1.StatusCause{}, false
	}
	return causes[at], true
}

// refusedBy makes the error of a CREATE an [UnmetError] if it has a reason.
func refusedBy(claim *ipamv1alpha1.IPClaim, err error) error {
	name := client.ObjectKeyFromObject(claim)
	cause, ok := causeOf(err)
	if !ok {
		return fmt.Errorf("create claim %s: %w", name, err)
	}
	return &UnmetError{Claim: name, Reason: ipamv1alpha1.Reason(cause.Type), Message: cause.Message, Err: err}
}

// unmetBy is the answer to a stored claim that has no block; nil if it has one.
func unmetBy(claim *ipamv1alpha1.IPClaim) *UnmetError {
	unmet := &UnmetError{Claim: client.ObjectKeyFromObject(claim), Stored: true}
	allocated := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if allocated == nil {
		return unmet
	}
	if allocated.Status == metav1.ConditionTrue && claim.Status.AllocatedCIDR != "" {
		return nil
	}
	unmet.Reason, unmet.Message = ipamv1alpha1.Reason(allocated.Reason), allocated.Message
	unmet.Stalled = meta.IsStatusConditionTrue(claim.Status.Conditions, ipamv1alpha1.ConditionStalled)
	return unmet
}

// missing reports whether there is no such object. The 404 of a workspace that does not serve the
// API says nothing about objects.
func missing(err error) bool { return apierrors.IsNotFound(err) && !absent.Resource(err) }

// differences lists where a claim that is there differs from what is asked for. unmetPolicy does not matter once the
// claim is bound. If no reclaimPolicy is asked for, that of the claim may be any, because it can be changed.
func differences(wanted ipamv1alpha1.IPClaimSpec, claim *ipamv1alpha1.IPClaim) ([]Difference, error) {
	there := claim.Spec
	if unmetBy(claim) == nil {
		there.UnmetPolicy = wanted.UnmetPolicy
	}
	if wanted.ReclaimPolicy == "" {
		there.ReclaimPolicy = ""
	}
	for _, spec := range []*ipamv1alpha1.IPClaimSpec{&wanted, &there} {
		if spec.Target == ipamv1alpha1.TargetBlock {
			spec.Target = "" // the default
		}
		if len(spec.Scope) == 0 {
			spec.Scope = nil
		}
	}
	return Differences(wanted, there)
}

// Differences lists the fields in which two specs of one kind differ, by name. An error means that
// they are no objects of JSON.
func Differences(wanted, there any) ([]Difference, error) {
	w, err := fieldsOf(wanted)
	if err != nil {
		return nil, err
	}
	t, err := fieldsOf(there)
	if err != nil {
		return nil, err
	}
	all := maps.Clone(w)
	maps.Copy(all, t)
	var list []Difference
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(w[field], t[field]) {
			list = append(list, Difference{Field: "spec." + field, Wanted: string(w[field]), There: string(t[field])})
		}
	}
	return list, nil
}

// fieldsOf are the fields of a spec that are given, as JSON.
func fieldsOf(spec any) (map[string]json.RawMessage, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	return fields, json.Unmarshal(data, &fields)
}
