package claim

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// What was passed over while a workspace was giving up the export is reconciled when it is
// served again. Of one that is not engaged nothing is known yet.
func TestArrived(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	r := &Reconciler{Options: Options{Directory: known, Queue: inbox.New(known).Claims}}
	t.Cleanup(r.Queue.ShutDown)

	r.clusters = testbed.Clusters{}
	r.Arrived("a")
	if got := r.Queue.Len(); got != 0 {
		t.Errorf("%d claims of a workspace that is not engaged are queued, want none", got)
	}
	r.clusters = testbed.Clusters{"a": testbed.NewWorkspace(t, gen.Claim("x"), gen.Claim("y"))}
	r.Arrived("a")
	expand(t, r, "a")
	for _, want := range []string{"x", "y"} {
		if got, _ := r.Queue.Get(); got != requestIn("a", want) {
			t.Errorf("queued is %v, want %v", got, requestIn("a", want))
		}
	}
	if got := r.Queue.Len(); got != 0 {
		t.Errorf("%d more claims are queued, want none", got)
	}
}

// expand reconciles the request that stands for all claims of a workspace, which has to be the next one.
func expand(t *testing.T, r *Reconciler, workspace multicluster.ClusterName) {
	t.Helper()
	request, _ := r.Queue.Get()
	if want := inbox.Request(workspace, client.ObjectKey{}); request != want {
		t.Fatalf("queued is %v, want %v", request, want)
	}
	must.Get(r.Reconcile(t.Context(), request))(t)
	r.Queue.Done(request)
}

// A tenant may change its binding again and again, and make it ready each time. All workspaces share the handler that tells of
// that: it lists no claims.
func TestArrived_AgainAndAgain(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	r := &Reconciler{Options: Options{Directory: known, Queue: inbox.New(known).Claims}}
	t.Cleanup(r.Queue.ShutDown)
	lists := 0
	workspace := &testbed.Workspace{Client: testbed.NewClient(t).WithObjects(gen.Claim("x")).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	}).Build()}
	r.clusters = testbed.Clusters{"a": workspace}
	for range 100 {
		r.Arrived("a")
	}
	if lists != 0 || r.Queue.Len() != 1 {
		t.Fatalf("the claims are listed %d times, with %d requests; want 0 and 1", lists, r.Queue.Len())
	}
	expand(t, r, "a")
	if got, _ := r.Queue.Get(); lists != 1 || got != requestIn("a", "x") {
		t.Errorf("after %d lists, queued is %v; want 1 and %v", lists, got, requestIn("a", "x"))
	}
}

// told are releases that note their hints.
type told struct {
	Releases
	hints []string
}

func (r *told) Deleted(h ledger.Holder, _ *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
	r.hints = append(r.hints, "deleted "+h.Name)
}
func (r *told) Missed(h ledger.Holder, _ *ipamv1alpha1.IPClaim) {
	r.hints = append(r.hints, "missed "+h.Name)
}
func (r *told) Suspect(h ledger.Holder) { r.hints = append(r.hints, "suspected "+h.Name) }

// A deletion that was seen says more than an object that a list left out: that may be missing because kcp was
// restored from a backup.
func TestOnClaim_DeletedOrMissed(t *testing.T) {
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
		"a claim that was deleted":              {event.DeleteEvent{Object: claim}, "deleted c"},
		"a claim that is missing":               {event.DeleteEvent{Object: claim, DeleteStateUnknown: true}, "missed c"},
		"a retained record that was deleted":    {event.DeleteEvent{Object: retained}, "suspected c"},
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
			var got string
			if len(releases.hints) > 0 {
				got = releases.hints[0]
			}
			if got != tt.hint || len(releases.hints) > 1 {
				t.Errorf("hints are %v, want just %q", releases.hints, tt.hint)
			}
		})
	}
}

// suspects are releases that note what they are hinted at.
type suspects struct {
	Releases
	claims []ledger.ClaimID
}

func (s *suspects) Suspect(h ledger.Holder) { s.claims = append(s.claims, h.Claim) }

// A record that comes while its claim is not there is a hint, however new it is: whoever
// wrote it may have seen the claim in a cache that lagged behind.
func TestOnRecord_WithoutItsClaim(t *testing.T) {
	t.Parallel()
	claim := gen.Claim("c")
	claim.UID = "uid-of-c"
	namesake := claim.DeepCopy()
	namesake.UID = "uid-of-another"
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
				releases := &suspects{}
				r := &Reconciler{Options: Options{Releases: releases, Directory: directory.New(directory.Workspace{Cluster: "platform"})}}
				record := tt.record.DeepCopy()
				record.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
				r.onRecord("tenant", tt.shows).Create(t.Context(), event.CreateEvent{Object: record}, nil)
				if hint := len(releases.claims) == 1 && releases.claims[0] == ledger.ClaimID(claim.UID); hint != tt.hint {
					t.Errorf("hints at %v; want one: %t", releases.claims, tt.hint)
				}
			})
		}
	}
}
