package sweep

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/packed"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

func newCaches(t *testing.T, funcs interceptor.Funcs, shown ...client.Object) Caches {
	t.Helper()
	w := &testbed.Workspace{Client: testbed.NewClient(t).WithInterceptorFuncs(funcs).WithObjects(shown...).Build()}
	return Caches{Clusters: testbed.Clusters{"": w, "w": w}, Directory: directory.New(directory.Workspace{Cluster: "platform"})}
}

func TestCaches_ShowTheStateOfAHolder(t *testing.T) {
	bound := gen.Claim("c")
	bound.UID, bound.Status.Phase = "uid-of-c", ipamv1alpha1.ClaimBound
	waiting := bound.DeepCopy()
	waiting.Status.Phase = ipamv1alpha1.ClaimPending
	successor := bound.DeepCopy()
	successor.UID = "uid-of-its-successor"
	child := gen.Pool("p")
	child.UID = "uid-of-p"
	record := gen.Allocation("c", "p", "10.0.0.0/28")
	record.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "c", UID: "uid-of-c"}
	kept := record.DeepCopy()
	kept.Spec.ClaimRef, kept.Annotations = nil, map[string]string{ipamv1alpha1.AnnotationRetainedFrom: "c/uid-of-c"}
	other, long, keptLong := record.DeepCopy(), record.DeepCopy(), kept.DeepCopy()
	other.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "other", UID: "uid-of-other"} // the same usual name
	long.Name = ipamv1alpha1.AllocationNames("default", "c")[1]
	keptLong.Name = long.Name
	next := record.DeepCopy()
	next.Spec.ClaimRef.UID = successor.UID
	claimed := ledger.Block{
		Prefix: netip.MustParsePrefix("10.0.0.0/28"), Holder: ledger.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"},
	}
	retained, carved, foreign, ranged, derived := claimed, claimed, claimed, claimed, claimed
	ranged.Prefix, derived.Holder = netip.Prefix{}, ledger.Holder{Claim: ledger.ClaimID(ledger.DerivedID("net", "w", nil)), Cluster: "w", Name: "net"}
	retained.State = ledger.Retained
	carved.Holder = ledger.Holder{Claim: "uid-of-p", Cluster: "w", Name: "p"}
	foreign.Holder.Cluster = "v"
	for name, tt := range map[string]struct {
		block   ledger.Block
		objects []client.Object
		want    State
	}{
		"a claim with its record":    {claimed, []client.Object{bound, record}, Held},
		"a claim about to be bound":  {claimed, []client.Object{waiting}, Held},
		"a bound claim, no record":   {claimed, []client.Object{bound}, Unrecorded},
		"no claim":                   {claimed, []client.Object{record}, Orphaned},
		"another claim of its name":  {claimed, []client.Object{successor, record}, Orphaned},
		"retained, with its record":  {retained, []client.Object{kept}, Held},
		"retained, without a record": {retained, nil, Orphaned},

		"a claim, its record's usual name is another's":       {claimed, []client.Object{bound, other, long}, Held},
		"a claim whose record's name is another's, no record": {claimed, []client.Object{bound, other}, Unrecorded},
		"retained, its record's usual name is another's":      {retained, []client.Object{other, keptLong}, Held},
		"retained, only another's record of its usual name":   {retained, []client.Object{other}, Orphaned},
		"retained, only its successor's record":               {retained, []client.Object{successor, next}, Orphaned},
		"a child pool":                                        {carved, []client.Object{child}, Held},
		"no child pool":                                       {carved, nil, Orphaned},
		"a range, its claim without a record":                 {ranged, []client.Object{bound}, Held},
		"a range, no claim":                                   {ranged, nil, Orphaned},
		"a derived pool, no IPPool":                           {derived, nil, Held},
		"a workspace not engaged":                             {foreign, []client.Object{bound, record}, Away},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newCaches(t, interceptor.Funcs{}, tt.objects...).State(t.Context(), tt.block); got != tt.want {
				t.Errorf("state = %d, want %d", got, tt.want)
			}
		})
	}
}

// keeping is a workspace whose cache keeps its objects packed, where it can.
type keeping struct {
	*testbed.Workspace
	packed.Packer
}

// Kept reads without a copy, as the cache of a tenant's workspace does.
func (k *keeping) Kept(kind client.Object, key client.ObjectKey) (client.Object, error) {
	obj := kind.DeepCopyObject().(client.Object)
	if err := k.GetClient().Get(context.Background(), key, obj); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	kept, err := k.Transform(obj)
	return kept.(client.Object), err
}

// A claim that shows the allocation ID of a block holds that block, and its record has to name the same ID, packed or
// not. An ID that was made for another claim does not count. A claim that shows no ID, or another ID of its own, does
// not hold the block.
func TestCaches_FindTheHolderByAllocationID(t *testing.T) {
	own, others := promise.NewID("w", "default", "c"), promise.NewID("w", "default", "d")
	claimOf := func(id ledger.ClaimID) *ipamv1alpha1.IPClaim {
		claim := gen.Claim("c", gen.UID("0b8a3a0e-6f0b-4d43-9d5a-000000000001"), gen.Created(time.Unix(1_700_000_000, 0)))
		claim.Annotations = map[string]string{"kcp.io/cluster": "w"}
		claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: "10.0.0.0/28", AllocationID: types.UID(id)}
		return claim
	}
	record := func(id ledger.ClaimID) *ipamv1alpha1.IPAllocation {
		r := gen.Allocation("c", "p", "10.0.0.0/28", gen.UID("0b8a3a0e-6f0b-4d43-9d5a-000000000002"))
		r.Annotations = map[string]string{"kcp.io/cluster": "w"}
		r.Spec.ClaimRef = &ipamv1alpha1.ClaimRef{Name: "c", UID: "0b8a3a0e-6f0b-4d43-9d5a-000000000001", AllocationID: types.UID(id)}
		return r
	}
	for name, tt := range map[string]struct {
		block   ledger.ClaimID
		objects []client.Object
		want    State
	}{
		"a claim with its record":               {own, []client.Object{claimOf(own), record(own)}, Held},
		"a claim without a record":              {own, []client.Object{claimOf(own)}, Unrecorded},
		"a claim whose record is of its UID":    {own, []client.Object{claimOf(own), record("")}, Unrecorded},
		"a claim that shows none":               {own, []client.Object{claimOf(""), record("")}, Orphaned},
		"a claim that shows that of another":    {others, []client.Object{claimOf(others), record(others)}, Orphaned},
		"a claim that shows another of its own": {own, []client.Object{claimOf(promise.NewID("w", "default", "c"))}, Orphaned},
	} {
		block := ledger.Block{
			Prefix: netip.MustParsePrefix("10.0.0.0/28"), Holder: ledger.Holder{Claim: tt.block, Cluster: "w", Namespace: "default", Name: "c"},
		}
		t.Run(name, func(t *testing.T) {
			caches := newCaches(t, interceptor.Funcs{}, tt.objects...)
			if got := caches.State(t.Context(), block); got != tt.want {
				t.Errorf("state = %d, want %d", got, tt.want)
			}
			packing := &keeping{Workspace: &testbed.Workspace{Client: testbed.NewClient(t).WithObjects(tt.objects...).Build()}}
			kept := must.Get(packing.Kept(claimKind, client.ObjectKeyFromObject(tt.objects[0])))(t)
			if _, whole := kept.(*ipamv1alpha1.IPClaim); whole {
				t.Fatal("the cache keeps the claim whole")
			}
			caches.Clusters = testbed.Clusters{"": packing, "w": packing}
			if got := caches.State(t.Context(), block); got != tt.want {
				t.Errorf("packed: state = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestCaches_ReportABlockAsHeldInDoubt(t *testing.T) {
	faulty := interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("the cache is not synced")
	}}
	block := ledger.Block{Holder: ledger.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"}}
	if got := newCaches(t, faulty).State(t.Context(), block); got != Held {
		t.Errorf("state = %d, want %d", got, Held)
	}
}

// The annotation lifts the brake of a pool until a time. A tenant's annotation does not count if one of the orphans is
// of another workspace. The platform's always counts.
func TestCaches_AllowUntilTheAnnotatedTime(t *testing.T) {
	const later = "2026-01-01T12:00:01Z"
	own, foreign := ledger.Holder{Cluster: "w", Name: "own"}, ledger.Holder{Cluster: "v", Name: "foreign"}
	for name, tt := range map[string]struct {
		until   string
		owner   ledger.ClusterName
		orphans []ledger.Holder
		want    bool
	}{
		"until nothing":               {"", "w", nil, false},
		"until no time":               {"yes", "w", nil, false},
		"until a second ago":          {"2026-01-01T11:59:59Z", "w", nil, false},
		"for a second":                {later, "w", nil, true},
		"a tenant, own blocks":        {later, "w", []ledger.Holder{own, own}, true},
		"a tenant, one of another":    {later, "w", []ledger.Holder{own, foreign}, false},
		"the platform, all of others": {later, "platform", []ledger.Holder{own, foreign}, true},
	} {
		pool := gen.Pool("p")
		pool.Annotations = map[string]string{AnnotationAllow: tt.until}
		caches, now := newCaches(t, interceptor.Funcs{}, pool), time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		if got := caches.Allowed(t.Context(), ledger.Pool{Cluster: tt.owner, Name: "p"}, tt.orphans, now); got != tt.want {
			t.Errorf("%s: allowed = %t, want %t", name, got, tt.want)
		}
	}
}
