package claim

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/kcp-ipam/ipam/test/testbed"
)

// quotaed is a scene in which a quota may forbid records. It counts the tries to create a record in the tenant's
// workspace, and refuses them while quota is not nil.
type quotaed struct {
	*scene
	quota error
	only  string // the only claim whose record the quota forbids; empty: it forbids all records
	posts int
	due   map[string]time.Time // when each claim is to be reconciled
}

// truthful plays releases that read claims in the tenant's workspace.
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
	q := &quotaed{scene: newScene(t, allocator.Options{}, offered()), due: map[string]time.Time{}, quota: forbidden("exceeded quota: none")}
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
			if q.quota != nil && strings.HasPrefix(object.(*ipamv1alpha1.IPAllocation).Spec.ClaimRef.Name, q.only) {
				return q.quota
			}
			return c.Create(ctx, object, opts...)
		},
	})
	return q
}

// forbidden returns the error of a server that forbids a record.
func forbidden(why string, causes ...metav1.StatusCause) error {
	err := apierrors.NewForbidden(ipamv1alpha1.GroupVersion.WithResource("ipallocations").GroupResource(), "a", errors.New(why))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, causes...)
	return err
}

// records counts the records of the tenant.
func (q *quotaed) records() int {
	q.Helper()
	list := &ipamv1alpha1.IPAllocationList{}
	must.Do(q, q.tenant.Client.List(q.Context(), list))
	return len(list.Items)
}

// run plays the queue for the duration d: it reconciles each claim when the claim is due.
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
			q.due[next] = q.now.Now().Add(30 * time.Second) // the longest delay of the queue's limiter
		case result.RequeueAfter > 0:
			q.due[next] = q.now.Now().Add(result.RequeueAfter)
		default:
			delete(q.due, next)
		}
	}
}

// While a quota forbids all records of a namespace, only one claim tries again, in the end every five minutes. The
// claims keep their blocks, and say why they are not Ready. Soon after the quota has gone, each claim has its record,
// and needed one more try for it.
func TestReconcile_SeldomTriesForbiddenRecords(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 10)
	q.run(time.Hour)
	if q.posts < 10 || q.posts > 20 {
		t.Errorf("10 claims have tried %d records in an hour; want 10 to 20", q.posts)
	}
	claim := gen.Claim("c0")
	testbed.Read(t, q.tenant.Client, claim)
	ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionReady)
	if claim.Status.AllocatedCIDR == "" || ready.Status != metav1.ConditionFalse || !strings.Contains(ready.Message, "ResourceQuota") {
		t.Errorf("the claim has %q, and Ready is %+v; want its block, and False because of a ResourceQuota", claim.Status.AllocatedCIDR, ready)
	}

	q.quota, q.posts = nil, 0
	q.run(6 * time.Minute)
	if n := q.records(); n != 10 || q.posts != 10 {
		t.Errorf("6 minutes after the quota went there are %d records, by %d tries; want 10 by 10", n, q.posts)
	}
}

// If the record of one claim alone is forbidden, the other claims get their records.
func TestReconcile_WritesTheOtherRecordsIfOneIsForbidden(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 4)
	q.only = "c0"
	q.run(time.Minute)
	if n := q.records(); n != 3 {
		t.Errorf("%d of the 3 claims whose records are allowed have one after a minute", n)
	}
}

// In a namespace that is being deleted, each claim tries to write its record just once.
func TestReconcile_TriesOnceInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	q := newQuotaed(t, 2)
	q.quota = forbidden("being terminated", metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	q.run(time.Hour)
	if q.posts != 2 {
		t.Errorf("2 claims of a namespace in deletion have tried %d records; want 2", q.posts)
	}
}
