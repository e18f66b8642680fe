package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// quotaed counts the records that are tried in the tenant's workspace, and refuses them while quota is not nil.
type quotaed struct {
	*scene
	quota error
	posts int
	due   map[string]time.Time // when each claim is to be reconciled
}

// truthful are releases that read the claims of the tenant's workspace.
type truthful struct {
	*alive
	workspace *workspace
}

func (r truthful) Alive(ctx context.Context, h ledger.Holder) (*ipamv1alpha1.IPClaim, error) {
	claim := &ipamv1alpha1.IPClaim{}
	return claim, r.workspace.Client.Get(ctx, client.ObjectKey{Namespace: h.Namespace, Name: h.Name}, claim)
}

func newQuotaed(t *testing.T, claims int) *quotaed {
	t.Helper()
	q := &quotaed{scene: newScene(t, allocator.Options{}, offered()), due: map[string]time.Time{}}
	q.quota = apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "a", errors.New("exceeded quota: none"))
	q.tenant.Events = events.NewFakeRecorder(8 * claims)
	q.Releases = truthful{q.servers, q.tenant}
	for i := range claims {
		claim := gen.Claim(fmt.Sprint("c", i), gen.OfClass("internal"))
		q.stored(claim, q.create(claim))
		q.due[claim.Name] = q.now.Now()
	}
	q.tenant.Client = interceptor.NewClient(q.tenant.Client.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			q.posts++
			if q.quota != nil {
				return q.quota
			}
			return c.Create(ctx, object, opts...)
		},
	})
	return q
}

// run reconciles each claim whenever its queue would, for so long.
func (q *quotaed) run(d time.Duration) {
	q.Helper()
	for end := q.now.Now().Add(d); ; {
		next := ""
		for name, at := range q.due {
			if next == "" || at.Before(q.due[next]) || at.Equal(q.due[next]) && name < next {
				next = name
			}
		}
		if next == "" || q.due[next].After(end) {
			q.now.SetTime(end)
			return
		}
		q.now.SetTime(q.due[next])
		result, err := q.Reconcile(q.Context(), requestIn("tenant", next))
		switch {
		case err != nil:
			q.due[next] = q.now.Now().Add(30 * time.Second) // the latest that the queue's limiter says
		case result.RequeueAfter > 0:
			q.due[next] = q.now.Now().Add(result.RequeueAfter)
		default:
			delete(q.due, next)
		}
	}
}

// Where a quota of the tenant forbids all records, one claim of the namespace tries again, every five minutes in the end.
// The claims keep their blocks, and say why they are not ready. When the quota goes, all are recorded.
func TestReconcile_WhereAQuotaForbidsRecords(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 10)
	q.run(time.Hour)
	if q.posts < 10 || q.posts > 20 {
		t.Errorf("10 claims have tried %d records in an hour; want 10 to 20", q.posts)
	}
	claim := &ipamv1alpha1.IPClaim{}
	must.Do(t, q.tenant.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c0"}, claim))
	ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionReady)
	if claim.Status.AllocatedCIDR == "" || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "ResourceQuota") {
		t.Errorf("the claim has %q, and Ready is %+v; want its block, and False because of a ResourceQuota", claim.Status.AllocatedCIDR, ready)
	}

	q.quota, q.posts = nil, 0
	q.run(6 * time.Minute)
	records := &ipamv1alpha1.IPAllocationList{}
	must.Do(t, q.tenant.Client.List(t.Context(), records))
	if len(records.Items) != 10 || q.posts != 10 {
		t.Errorf("6 minutes after the quota went there are %d records, by %d tries; want 10 by 10", len(records.Items), q.posts)
	}
}

// A claim whose record alone is forbidden keeps none of the others from being recorded.
func TestReconcile_WhereOneRecordIsForbidden(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 4)
	forbids := q.quota
	q.quota = nil
	inner := q.tenant.Client
	q.tenant.Client = interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if record, ok := object.(*ipamv1alpha1.IPAllocation); ok && record.Spec.ClaimRef.Name == "c0" {
				return forbids
			}
			return c.Create(ctx, object, opts...)
		},
	})
	q.run(time.Minute)
	records := &ipamv1alpha1.IPAllocationList{}
	must.Do(t, q.tenant.Client.List(t.Context(), records))
	if len(records.Items) != 3 {
		t.Errorf("%d of the 3 claims whose records are allowed have one after a minute", len(records.Items))
	}
}

// In a namespace that is being deleted nothing is tried again, and no other claim waits.
func TestReconcile_ANamespaceInDeletionIsLeftAlone(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 2)
	gone := apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "a", errors.New("being terminated"))
	gone.ErrStatus.Details.Causes = slices.Concat(gone.ErrStatus.Details.Causes, []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}})
	q.quota = gone
	q.run(time.Hour)
	if q.posts != 2 {
		t.Errorf("2 claims of a namespace in deletion have tried %d records; want 2", q.posts)
	}
}
