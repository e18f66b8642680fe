package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/test/gen"
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

// A tenant is told that the ledger is away, in words that say nothing of how it is built or where it runs: neither by
// the claim's conditions nor by its event.
func TestReconcile_TellsNothingOfTheServers(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(), gen.Claim("c", gen.OfClass("internal")))
	if err := s.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.Reconcile(t.Context(), requestIn("tenant", "c"))
	if !errors.Is(err, ledger.ErrClosed) {
		t.Fatalf("Reconcile = %v, want it to say %v", err, ledger.ErrClosed)
	}
	claim := gen.Claim("c")
	if err := s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	const want = "the ledger is not available now"
	if len(claim.Status.Conditions) == 0 {
		t.Error("the claim has no conditions, want the reason Error")
	}
	for _, c := range claim.Status.Conditions {
		if c.Reason != string(ipamv1alpha1.ReasonError) || c.Message != want {
			t.Errorf("%s says %s: %q, want %s: %q", c.Type, c.Reason, c.Message, ipamv1alpha1.ReasonError, want)
		}
	}
	if got := <-s.tenant.Events.Events; !strings.HasSuffix(got, want) {
		t.Errorf("the event says %q, want %q", got, want)
	}
}
