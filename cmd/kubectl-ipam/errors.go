package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

// The exit codes. Those of an answer come from its reason: see
// [ipamv1alpha1.Reason.ExitCode].
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitForbidden   = 3
	exitNotFound    = 4
	exitConflict    = 5
	exitInvalid     = 6
	exitUnavailable = 8
	exitAborted     = 9
)

// exitOfStatus is how a refusal of the API server ends.
var exitOfStatus = map[metav1.StatusReason]int{
	metav1.StatusReasonUnauthorized:       exitForbidden,
	metav1.StatusReasonForbidden:          exitForbidden,
	metav1.StatusReasonNotFound:           exitNotFound,
	metav1.StatusReasonAlreadyExists:      exitConflict,
	metav1.StatusReasonConflict:           exitConflict,
	metav1.StatusReasonInvalid:            exitInvalid,
	metav1.StatusReasonBadRequest:         exitInvalid,
	metav1.StatusReasonServerTimeout:      exitUnavailable,
	metav1.StatusReasonTimeout:            exitUnavailable,
	metav1.StatusReasonTooManyRequests:    exitUnavailable,
	metav1.StatusReasonServiceUnavailable: exitUnavailable,
}

// failure is an error with its exit code, and lines on what to do.
type failure struct {
	code int
	err  error
	hint string
	// reason is that of the system's answer; empty if the error is no answer.
	reason ipamv1alpha1.Reason
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, hint, format string, args ...any) error {
	return &failure{code: code, hint: hint, err: fmt.Errorf(format, args...)}
}

// usagef is an error in how the program was called.
func usagef(format string, args ...any) error { return fail(exitUsage, "", format, args...) }

// refused is the answer of the system when it is not the one hoped for.
func refused(what string, condition metav1.Condition) error {
	reason := ipamv1alpha1.Reason(condition.Reason)
	return &failure{code: reason.ExitCode(), reason: reason, hint: reason.Remedy(),
		err: fmt.Errorf("%s: %s: %s", what, reason, condition.Message)}
}

// unmet is the error of a claim that has no block, by whose reason the program ends. Any other
// error stays as it is.
func unmet(err error) error {
	reason := ipamclient.ReasonOf(err)
	if reason == "" {
		return err
	}
	return &failure{code: reason.ExitCode(), reason: reason, hint: reason.Remedy(), err: err}
}

// exitCode is the code with which the program ends.
func exitCode(err error) int {
	known, isKnown := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return exitOK
	case isKnown:
		return known.code
	case errors.Is(err, context.Canceled):
		return exitAborted
	case errors.Is(err, ipamclient.ErrTerminating), ending(err):
		return exitConflict
	case errors.Is(err, context.DeadlineExceeded), unserved(err):
		return exitUnavailable
	}
	if code, ok := exitOfStatus[apierrors.ReasonForError(err)]; ok {
		return code
	}
	if unreachable(err) {
		return exitUnavailable
	}
	return exitError
}

// joined returns the errors that errors.Join made one error of, or the error itself.
func joined(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	return many.Unwrap()
}

// explain is an error in words.
func explain(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case unserved(err):
		return "this workspace does not serve the IPAM API"
	default:
		return err.Error()
	}
}

// hintOf is what to do about an error; empty when its words say it.
func hintOf(err error) string {
	known, isKnown := errors.AsType[*failure](err)
	switch {
	case isKnown:
		return known.hint
	case unreachable(err):
		return "check that the server runs, and that --kubeconfig and --context or --server name it"
	case unserved(err):
		return "kubectl ipam tenant bind WORKSPACE binds it, and --context or --server names another workspace"
	case ending(err):
		return "wait until the namespace is gone, and create it again; or claim in another one: --namespace NAME"
	case apierrors.IsForbidden(err):
		return "ask an admin of this workspace for one of the roles ipam-viewer, ipam-consumer and ipam-pool-admin"
	case apierrors.IsUnauthorized(err):
		return "log in again, or give other credentials in the kubeconfig"
	default:
		return ""
	}
}

// notFound is the error of the API server for an object that is not among those seen.
func notFound(plural, name string) error {
	return apierrors.NewNotFound(ipamv1alpha1.Resource(plural), name)
}

// unreachable reports whether no server has answered.
func unreachable(err error) bool {
	_, ok := errors.AsType[*url.Error](err)
	return ok
}

// ending reports whether a namespace takes no new objects, since it is being deleted.
func ending(err error) bool { return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) }

// unserved reports whether an error says that a resource is not served, rather
// than that an object is not there.
func unserved(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse {
			return true
		}
	}
	return false
}
