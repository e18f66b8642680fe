package claim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

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
