package claim

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
)

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
