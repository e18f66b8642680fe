package claim

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

// What a pass ends with decides when it is repeated, also where two errors are joined.
func TestRequeueFor(t *testing.T) {
	t.Parallel()
	claims := ipamv1alpha1.GroupVersion.WithResource("ipclaims").GroupResource()
	fault := errors.New("etcd is away")
	leaves := apierrors.NewForbidden(claims, "c", fault)
	leaves.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tt := range []struct {
		name  string
		err   error
		after time.Duration
		want  error
	}{
		{name: "done"},
		{name: "the server does not know the claim", err: apierrors.NewNotFound(claims, "c"), after: goneDelay},
		{name: "the claim is gone", err: errGone, after: missedDelay},
		{name: "its namespace goes", err: fmt.Errorf("create: %w", leaves)},
		{name: "the pool was not compared yet", err: errUnchecked, after: goneDelay},
		{name: "the cache lags behind", err: errUnseen, after: patch.ConflictDelay},
		{name: "a conflict beside another error", err: errors.Join(fault, apierrors.NewConflict(claims, "c", fault)), after: patch.ConflictDelay},
		{name: "a fault", err: fault, want: fault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := requeueFor(tt.err)
			if got.RequeueAfter != tt.after || !errors.Is(err, tt.want) {
				t.Errorf("requeueFor(%v) = %s, %v; want %s, %v", tt.err, got.RequeueAfter, err, tt.after, tt.want)
			}
		})
	}
}
