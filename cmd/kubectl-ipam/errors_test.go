package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// A namespace that is being deleted is told apart from missing rights, which no admin could grant.
func TestHint_ForANamespaceThatIsBeingDeleted(t *testing.T) {
	err := apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), "c", errors.New("because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	wrapped := fmt.Errorf("create claim c: %w", err)
	if hint := hintOf(wrapped); strings.Contains(hint, "role") || !strings.Contains(hint, "--namespace") {
		t.Errorf("the hint is %q; want one about the namespace, not about roles", hint)
	}
	if got := exitCode(unmet(wrapped)); got != exitConflict {
		t.Errorf("exit code %d, want %d", got, exitConflict)
	}
}

// A claim that is not created because it cannot be met ends as one that waits for the same reason.
func TestUnmet(t *testing.T) {
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
		{"created", nil, exitOK},
		{"exhausted", denied(http.StatusInsufficientStorage, metav1.StatusCause{Type: "Exhausted"},
			metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonPoolExhausted)}), 7},
		{"over the limit", denied(http.StatusForbidden, metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonQuotaExceeded)}), 7},
		{"of no class", denied(http.StatusUnprocessableEntity, metav1.StatusCause{Type: metav1.CauseType(ipamv1alpha1.ReasonClassNotFound)}), 4},
		{"another refusal", apierrors.NewForbidden(ipamv1alpha1.Resource("ipclaims"), "c", errors.New("no")), exitForbidden},
		{"no answer", errors.New("EOF"), exitError},
	} {
		if got := exitCode(unmet(tt.err)); got != tt.want {
			t.Errorf("%s: exit code %d, want %d", tt.name, got, tt.want)
		}
	}
}
