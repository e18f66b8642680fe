package claim

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
)

// suspects are releases that note what they are hinted at.
type suspects struct {
	Releases
	claims []ledger.ClaimID
}

func (s *suspects) Suspect(h ledger.Holder) { s.claims = append(s.claims, h.Claim) }

// shown is a cluster whose cache shows some objects.
type shown struct {
	cluster.Cluster
	cache objects
}

// objects are a cache that never changes.
type objects struct {
	cache.Cache
	client.Reader
}

func (o objects) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return o.Reader.Get(ctx, key, obj, opts...)
}

func (o objects) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return o.Reader.List(ctx, list, opts...)
}

func show(t *testing.T, these ...client.Object) shown {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return shown{cache: objects{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(these...).Build()}}
}

func (s shown) GetCache() cache.Cache { return s.cache }

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
		cache  shown
		hint   bool
	}{
		{"its claim is there", held, show(t, claim), false},
		{"its claim is gone", held, show(t), true},
		{"another has the name", held, show(t, namesake), true},
		{"retained", retained, show(t), false},
	} {
		for _, age := range []time.Duration{0, time.Hour} {
			t.Run(tt.name+", "+age.String()+" old", func(t *testing.T) {
				t.Parallel()
				releases := &suspects{}
				r := &Reconciler{releases: releases, directory: directory.New(directory.Workspace{Cluster: "platform"})}
				record := tt.record.DeepCopy()
				record.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
				r.onRecord("tenant", tt.cache).Create(t.Context(), event.CreateEvent{Object: record}, nil)
				if hint := len(releases.claims) == 1 && releases.claims[0] == ledger.ClaimID(claim.UID); hint != tt.hint {
					t.Errorf("hints at %v; want one: %t", releases.claims, tt.hint)
				}
			})
		}
	}
}
