package claim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// Arrived queues one request for all claims of a workspace that is served again, however often a tenant makes its
// binding ready. It lists no claims, because all workspaces share its caller; the pass of that request lists them. For
// a workspace that is not engaged it queues nothing.
func TestArrived_QueuesOneRequestForAllClaims(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	r := &Reconciler{Options: Options{Directory: known, Queue: inbox.New(known).Claims}, clusters: testbed.Clusters{}}
	t.Cleanup(r.Queue.ShutDown)
	r.Arrived("a")
	if got := r.Queue.Len(); got != 0 {
		t.Errorf("%d claims of a workspace that is not engaged are queued, want none", got)
	}
	lists := 0
	r.clusters = testbed.Clusters{"a": &testbed.Workspace{Client: testbed.NewClient(t).WithObjects(gen.Claim("x"), gen.Claim("y")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}).Build()}}
	for range 100 {
		r.Arrived("a")
	}
	if lists != 0 || r.Queue.Len() != 1 {
		t.Fatalf("the claims are listed %d times, with %d requests; want 0 and 1", lists, r.Queue.Len())
	}
	all, _ := r.Queue.Get()
	if want := inbox.Request("a", client.ObjectKey{}); all != want {
		t.Fatalf("queued is %v, want %v, which stands for all claims of the workspace", all, want)
	}
	must.Get(r.Reconcile(t.Context(), all))(t)
	r.Queue.Done(all)
	for _, want := range []string{"x", "y"} {
		if got, _ := r.Queue.Get(); got != requestIn("a", want) {
			t.Errorf("queued is %v, want %v", got, requestIn("a", want))
		}
	}
	if got := r.Queue.Len(); got != 0 || lists != 1 {
		t.Errorf("%d more claims are queued, after %d lists; want none after 1", got, lists)
	}
}

// told notes the hints that the releases get.
type told struct {
	Releases
	hints []string
}

func (r *told) Deleted(h ledger.Holder, _ *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
	r.note("deleted", h)
}
func (r *told) Missed(h ledger.Holder, _ *ipamv1alpha1.IPClaim) { r.note("missed", h) }
func (r *told) Suspect(h ledger.Holder)                         { r.note("suspected", h) }
func (r *told) note(hint string, h ledger.Holder) {
	r.hints = append(r.hints, hint+" "+h.Name+" "+string(h.Claim))
}

// An object that was seen deleted gives another hint than an object that a list left out: a list may leave out an
// object because kcp was restored from a backup.
func TestOnClaim_DistinguishesDeletedFromMissed(t *testing.T) {
	t.Parallel()
	claim, retained, held := gen.Claim("c"), &ipamv1alpha1.IPAllocation{}, &ipamv1alpha1.IPAllocation{}
	retained.Namespace, retained.Name = "default", "alloc-1"
	retained.Annotations = map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/uid"}
	held.Namespace, held.Name = "default", "alloc-2"
	held.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "c", UID: "uid"}
	for name, tt := range map[string]struct {
		event event.DeleteEvent
		hint  string
	}{
		"a claim that was deleted":              {event.DeleteEvent{Object: claim}, "deleted c uid-of-c"},
		"a claim that is missing":               {event.DeleteEvent{Object: claim, DeleteStateUnknown: true}, "missed c uid-of-c"},
		"a retained record that was deleted":    {event.DeleteEvent{Object: retained}, "suspected c uid"},
		"a retained record that is missing":     {event.DeleteEvent{Object: retained, DeleteStateUnknown: true}, ""},
		"the record of a claim that is deleted": {event.DeleteEvent{Object: held}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, releases := newScene(t, allocator.Options{}, offered()), &told{}
			s.Releases = releases
			q := inbox.NewQueue("deleted")
			t.Cleanup(q.ShutDown)
			handler := s.onRecord("tenant", s.tenant)
			if _, ok := tt.event.Object.(*ipamv1alpha1.IPClaim); ok {
				handler = s.onClaim("tenant", s.tenant)
			}
			handler.Delete(t.Context(), tt.event, q)
			if got := strings.Join(releases.hints, ", "); got != tt.hint {
				t.Errorf("hints are %q, want just %q", got, tt.hint)
			}
		})
	}
}

// A record comes while the cache does not show its claim: its writer may have read the claim from a stale cache. The
// claim is reported as missed, because nobody saw its deletion. The age of the record does not matter.
func TestOnRecord_ReportsAnUnseenClaimAsMissed(t *testing.T) {
	t.Parallel()
	claim, namesake := gen.Claim("c"), gen.Claim("c", gen.UID("uid-of-another"))
	held := gen.Allocation("c", "p", "10.0.0.0/28")
	held.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: claim.UID}
	retained := held.DeepCopy()
	retained.Spec.ClaimRef = nil
	for _, tt := range []struct {
		name   string
		record *ipamv1alpha1.IPAllocation
		shows  *testbed.Workspace
		hint   bool
	}{
		{"its claim is there", held, testbed.NewWorkspace(t, claim), false},
		{"its claim is gone", held, testbed.NewWorkspace(t), true},
		{"another has the name", held, testbed.NewWorkspace(t, namesake), true},
		{"retained", retained, testbed.NewWorkspace(t), false},
	} {
		for _, age := range []time.Duration{0, time.Hour} {
			t.Run(tt.name+", "+age.String()+" old", func(t *testing.T) {
				t.Parallel()
				releases := &told{}
				r := &Reconciler{Options: Options{Releases: releases, Directory: directory.New(directory.Workspace{Cluster: "platform"})}}
				record := tt.record.DeepCopy()
				record.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
				r.onRecord("tenant", tt.shows).Create(t.Context(), event.CreateEvent{Object: record}, nil)
				if hint := slices.Equal(releases.hints, []string{"missed c uid-of-c"}); hint != tt.hint {
					t.Errorf("hints are %v; want one: %t", releases.hints, tt.hint)
				}
			})
		}
	}
}
