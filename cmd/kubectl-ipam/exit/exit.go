// Package exit says how the program ends: with which exit code, and with which advice on an error. The code follows
// from the reason of an answer, never from its message.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/absent"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// These are the exit codes. [ipamv1alpha1.Reason.ExitCode] has that for each reason of an answer.
const (
	OK          = 0
	Error       = 1
	Usage       = 2
	Forbidden   = 3
	NotFound    = 4
	Conflict    = 5
	Invalid     = 6
	Unavailable = 8
	Aborted     = 9
)

// exitOfStatus has the exit code for each refusal of the API server.
var exitOfStatus = map[metav1.StatusReason]int{
	metav1.StatusReasonUnauthorized:       Forbidden,
	metav1.StatusReasonForbidden:          Forbidden,
	metav1.StatusReasonNotFound:           NotFound,
	metav1.StatusReasonAlreadyExists:      Conflict,
	metav1.StatusReasonConflict:           Conflict,
	metav1.StatusReasonInvalid:            Invalid,
	metav1.StatusReasonBadRequest:         Invalid,
	metav1.StatusReasonServerTimeout:      Unavailable,
	metav1.StatusReasonTimeout:            Unavailable,
	metav1.StatusReasonTooManyRequests:    Unavailable,
	metav1.StatusReasonServiceUnavailable: Unavailable,
}

// BindIt is the advice if the workspace does not serve the API.
const BindIt = "kubectl ipam tenant bind WORKSPACE binds it, and --context or --server names another workspace"

// Failure is an error with its exit code, and with advice in Hint.
type Failure struct {
	Code int
	Err  error
	Hint string
	// Reason is the reason of the system's answer; empty if the error is no answer.
	Reason ipamv1alpha1.Reason
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error without code and hint.
func (f *Failure) Unwrap() error { return f.Err }

// Fail makes an error with an exit code and with advice, which may be empty.
func Fail(code int, hint, format string, args ...any) error {
	return &Failure{Code: code, Hint: hint, Err: fmt.Errorf(format, args...)}
}

// Usagef makes the error of a wrong command line.
func Usagef(format string, args ...any) error { return Fail(Usage, "", format, args...) }

// Unmet returns the error of a claim that the server did not create. The exit code follows from the reason of the
// refusal. Any other error stays as it is.
func Unmet(claim *ipamv1alpha1.IPClaim, err error) error {
	reason := ipamclient.ReasonOf(err)
	if reason == "" {
		return err
	}
	hint := Remedy(claim, reason)
	if unmet, ok := errors.AsType[*ipamclient.UnmetError](err); !ok || !unmet.Stored {
		hint = "nothing was created: " + hint
	}
	if apierrors.IsServiceUnavailable(err) {
		hint = "nothing was created: create the claim again in some seconds"
	}
	return &Failure{Code: reason.ExitCode(), Reason: reason, Hint: hint, Err: err}
}

// Remedy returns what to do if a claim has no block for this reason. It does not advise a smaller block for a claim for
// a range.
func Remedy(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) string {
	asked := cmp.Or(claim.Status.Requested, ipamv1alpha1.RequestedColumn(claim.Spec))
	if claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
		asked = ""
	}
	return reason.RemedyFor(asked, cmp.Or(claim.Status.IPFamily, claim.Spec.IPFamily))
}

// CodeOf returns the exit code for an error.
func CodeOf(err error) int {
	known, isKnown := errors.AsType[*Failure](err)
	code, isStatus := exitOfStatus[apierrors.ReasonForError(err)]
	switch {
	case err == nil:
		code = OK
	case isKnown:
		code = known.Code
	case errors.Is(err, context.Canceled):
		code = Aborted
	case errors.Is(err, ipamclient.ErrTerminating), ending(err):
		code = Conflict
	case errors.Is(err, context.DeadlineExceeded), absent.Resource(err):
		code = Unavailable
	case isStatus:
	case Unreachable(err):
		code = Unavailable
	default:
		code = Error
	}
	return code
}

// Joined returns the errors that errors.Join has joined. For any other error it returns this error alone.
func Joined(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	return many.Unwrap()
}

// Explain returns an error in words.
func Explain(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case absent.Resource(err):
		return "this workspace does not serve the IPAM API"
	default:
		return err.Error()
	}
}

// HintOf returns what to do about an error. It is empty if the error itself says so, or if a user has no right: for
// that, see package rights.
func HintOf(err error) (hint string) {
	known, isKnown := errors.AsType[*Failure](err)
	switch {
	case isKnown:
		hint = known.Hint
	case isLate(err):
		hint = "check that the server runs, and that --kubeconfig and --context or --server name it; " +
			"--request-timeout 5m waits longer for each answer"
	case Unreachable(err):
		hint = "check that the server runs, and that --kubeconfig and --context or --server name it"
	case absent.Resource(err):
		hint = BindIt
	case ending(err):
		hint = "wait until the namespace is gone, and create it again; or claim in another one: --namespace NAME"
	case apierrors.IsUnauthorized(err):
		hint = "log in again, or give other credentials in the kubeconfig"
	}
	return hint
}

// Missing returns the error by which the API server would say that an object does not exist.
func Missing(plural, name string) error {
	return apierrors.NewNotFound(ipamv1alpha1.Resource(plural), name)
}

// TimeoutError says that a server did not finish its answer in time.
type TimeoutError struct {
	// After is how long the server had to answer.
	After time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the server did not answer within %s", e.After)
}

func isLate(err error) bool {
	_, ok := errors.AsType[*TimeoutError](err)
	return ok
}

// Unreachable reports whether the error is that no server has answered.
func Unreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok || isLate(err)
}

// ending reports whether the error is that a namespace takes no new objects because it is being deleted.
func ending(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }

// IgnoreUnseen returns nil for the error of an object that does not exist, or that the caller may not see.
func IgnoreUnseen(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}
