package exit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The hint for a namespace that is being deleted is not that for missing rights, which no admin could grant.
func TestHint_TellsADeletedNamespaceFromMissingRights(t *testing.T) {
	err := apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), "c", errors.New("because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	wrapped := fmt.Errorf("create claim c: %w", err)
	if hint := HintOf(wrapped); strings.Contains(hint, "role") || !strings.Contains(hint, "--namespace") {
		t.Errorf("the hint is %q; want one about the namespace, not about roles", hint)
	}
	if got := CodeOf(Unmet(&ipamv1alpha1.IPClaim{}, wrapped)); got != Conflict {
		t.Errorf("exit code %d, want %d", got, Conflict)
	}
}

// If a claim with the policy Refuse cannot be answered now, its CREATE fails. As there is no claim, the user has to
// retry.
func TestUnmet_AdvisesToRetryIfNobodyCanTell(t *testing.T) {
	err := Unmet(&ipamv1alpha1.IPClaim{}, &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "denied",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(ipamv1alpha1.ReasonError)}}},
	}})
	if got, want := HintOf(err), "nothing was created: create the claim again in some seconds"; got != want || CodeOf(err) != Error {
		t.Errorf("the hint is %q, with exit code %d; want %q and %d", got, CodeOf(err), want, Error)
	}
}

// If a claim is not created because it cannot be met, the exit code is the same as for a claim that waits for this
// reason.
func TestUnmet_HasTheExitCodeOfAWaitingClaim(t *testing.T) {
	denied := func(code int32, causes ...metav1.StatusCause) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Message: "denied", Details: &metav1.StatusDetails{Causes: causes},
		}}
	}
	for _, tt := range []struct {
		name string
		err  error
		want int
	}{
		{"created", nil, OK},
		{"exhausted", denied(http.StatusInsufficientStorage, metav1.StatusCause{Type: "Exhausted"},
			metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonPoolExhausted)}), 7},
		{"over the limit", denied(http.StatusForbidden, metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonQuotaExceeded)}), 7},
		{"of no class", denied(http.StatusUnprocessableEntity, metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonClassNotFound)}), 4},
		{"another refusal", apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), "c", errors.New("no")), Forbidden},
		{"no answer", errors.New("EOF"), Error},
	} {
		if got := CodeOf(Unmet(&ipamv1alpha1.IPClaim{}, tt.err)); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}

// The exit code follows from the reason of an error.
func TestCodeOf_FollowsFromTheReason(t *testing.T) {
	claims := ipamv1alpha1.Resource("ipclaims")
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("something"), 1},
		{Usagef("wrong"), 2},
		{apierrors.NewForbidden(claims, "a", nil), 3},
		{apierrors.NewUnauthorized("who"), 3},
		{fmt.Errorf("read: %w", apierrors.NewNotFound(claims, "a")), 4},
		{apierrors.NewConflict(claims, "a", nil), 5},
		{apierrors.NewAlreadyExists(claims, "a"), 5},
		{apierrors.NewInvalid(ipamv1alpha1.GroupVersion.WithKind("IPClaim").GroupKind(), "a", nil), 6},
		{apierrors.NewGenericServerResponse(404, "get", claims, "a", "404 page not found", 0, true), 8},
		{apierrors.NewServiceUnavailable("later"), 8},
		{&url.Error{Err: errors.New("refused")}, 8},
		{context.DeadlineExceeded, 8},
		{&url.Error{Err: context.Canceled}, 9},
		{errors.Join(nil, apierrors.NewNotFound(claims, "a")), 4},
	} {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("%v ends with %d; want %d", test.err, got, test.want)
		}
	}
}

// No smaller block is advised for a claim for a range or an address, whether the server stores the claim or not.
func TestRemedy_AdvisesASmallerBlockOnlyForABlock(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec      ipamv1alpha1.IPClaimSpec
		requested string
		smaller   bool
	}{
		"a block":                  {ipamv1alpha1.IPClaimSpec{PrefixLength: 28}, "", true},
		"an exact block":           {ipamv1alpha1.IPClaimSpec{Address: "10.0.0.0/28"}, "", true},
		"an address":               {ipamv1alpha1.IPClaimSpec{Address: "10.0.0.1"}, "", false},
		"a block of its class":     {ipamv1alpha1.IPClaimSpec{}, "/28", true},
		"a range":                  {ipamv1alpha1.IPClaimSpec{Target: ipamv1alpha1.TargetScopeRange}, "/28", false},
		"a range of a length":      {ipamv1alpha1.IPClaimSpec{Target: ipamv1alpha1.TargetScopeRange, PrefixLength: 20}, "", false},
		"an exact range":           {ipamv1alpha1.IPClaimSpec{Target: ipamv1alpha1.TargetScopeRange, Address: "10.0.0.0/20"}, "", false},
		"nobody knows what it is":  {ipamv1alpha1.IPClaimSpec{}, "", false},
		"an address of its family": {ipamv1alpha1.IPClaimSpec{PrefixLength: 32, IPFamily: ipamv1alpha1.IPv4}, "", false},
	} {
		claim := &ipamv1alpha1.IPClaim{Spec: tt.spec}
		claim.Status.Requested = tt.requested
		if got := Remedy(claim, ipamv1alpha1.ReasonPoolExhausted); strings.Contains(got, "smaller") != tt.smaller {
			t.Errorf("%s: the remedy is %q; it is to advise a smaller block: %t", name, got, tt.smaller)
		}
	}
}
