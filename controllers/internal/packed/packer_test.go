package packed

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"
	"time"
	"unsafe"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/test/must"
)

// bound returns a bound claim, as the controller leaves it, and its record.
func bound(i int) (*ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation) {
	address := fmt.Sprintf("10.0.0.%d", i)
	uid := types.UID(fmt.Sprintf("0b8a3a0e-6f0b-4d43-9d5a-%012x", i))
	condition := func(kind, message string) metav1.Condition {
		return metav1.Condition{
			Type: kind, Status: metav1.ConditionTrue, Reason: "AllocationSucceeded", Message: message + " " + address + "/32",
			ObservedGeneration: 1, LastTransitionTime: metav1.Unix(1_700_000_000+int64(i), 0),
		}
	}
	meta := metav1.ObjectMeta{
		Name: fmt.Sprintf("web-%d", i), Namespace: "default", UID: uid, ResourceVersion: fmt.Sprint(1000 + i), Generation: 1,
		CreationTimestamp: metav1.Unix(1_700_000_000+int64(i), 0), Annotations: map[string]string{clusterAnnotation: "2x7tq0fqzmdbp3kl"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
	}
	claim := &ipamv1alpha1.IPClaim{
		TypeMeta: metav1.TypeMeta{Kind: "IPClaim"}, ObjectMeta: *meta.DeepCopy(),
		Spec: ipamv1alpha1.IPClaimSpec{ClassName: "shared", PrefixLength: 32},
		Status: ipamv1alpha1.IPClaimStatus{
			Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: address + "/32", Address: address, ClassName: "shared", IPFamily: ipamv1alpha1.IPv4,
			PoolRef: &ipamv1alpha1.PoolRef{Name: "p", ProjectRef: &ipamv1alpha1.ProjectRef{Name: "root:ipam"}}, ObservedGeneration: 1,
			BoundAllocationRef: &ipamv1alpha1.LocalRef{Name: recordName("default", meta.Name)},
			Conditions:         []metav1.Condition{condition("Allocated", "bound to"), condition("Ready", "bound to")},
		},
	}
	record := &ipamv1alpha1.IPAllocation{
		TypeMeta: metav1.TypeMeta{Kind: "IPAllocation"}, ObjectMeta: *meta.DeepCopy(),
		Spec: ipamv1alpha1.IPAllocationSpec{
			IPFamily: ipamv1alpha1.IPv4, PoolRef: *claim.Status.PoolRef, ClassName: "shared", ReclaimPolicy: ipamv1alpha1.ReclaimDelete,
			ClaimRef: &ipamv1alpha1.ClaimRef{Name: claim.Name, UID: uid},
		},
		Status: ipamv1alpha1.IPAllocationStatus{
			Phase: ipamv1alpha1.AllocationReady, AllocatedCIDR: address + "/32", Address: address,
			Conditions: []metav1.Condition{condition("Allocated", "holds"), condition("Ready", "holds")},
		},
	}
	record.Name = recordName("default", claim.Name)
	return claim, record
}

// packs transforms a copy of an object, and fails the test unless the unpacked result is the same, except for metadata
// that no controller reads.
func packs(t *testing.T, p *Packer, object client.Object) any {
	t.Helper()
	kept := must.Get(p.Transform(object.DeepCopyObject()))(t)
	want := object.DeepCopyObject().(client.Object)
	strip(want)
	if got := Whole(kept.(client.Object)); !reflect.DeepEqual(got, want) {
		t.Fatalf("after Transform the object is\n%+v\nwant\n%+v", got, want)
	}
	sameRead(t, kept.(client.Object), want)
	again, err := p.Transform(kept)
	if err != nil || again != kept {
		t.Fatalf("Transform of what it returned = %v, %v; want the same", again, err)
	}
	return kept
}

// sameRead fails the test unless all reads of a kept object return the same as for the whole one.
func sameRead(t *testing.T, kept, whole client.Object) {
	t.Helper()
	switch whole := whole.(type) {
	case *ipamv1alpha1.IPClaim:
		if got, want := Bound(kept), whole.Status.Phase == ipamv1alpha1.ClaimBound; got != want {
			t.Fatalf("Bound(%+v) = %t, want %t", whole, got, want)
		}
		if got, want := AllocationID(kept), whole.Status.AllocationID; got != want {
			t.Fatalf("AllocationID(%+v) = %q, want %q", whole, got, want)
		}
		if got, want := Allocated(kept), whole.Status.AllocatedCIDR != ""; got != want {
			t.Fatalf("Allocated(%+v) = %t, want %t", whole, got, want)
		}
	case *ipamv1alpha1.IPAllocation:
		name, _ := whole.HeldBy()
		id := whole.AllocationID()
		if gotName, gotID, retained := HeldBy(kept); gotName != name || gotID != id || retained != (whole.Spec.ClaimRef == nil) {
			t.Fatalf("HeldBy(%+v) = %s, %s, %t; want %s, %s, %t", whole, gotName, gotID, retained, name, id, whole.Spec.ClaimRef == nil)
		}
	}
}

// Bound claims and records are packed, and share their shape.
func TestTransform_SharesTheShapeOfBoundClaims(t *testing.T) {
	t.Parallel()
	p := &Packer{}
	one, first := bound(1)
	other, second := bound(2)
	a, isPacked := packs(t, p, one).(*claim)
	b, alsoPacked := packs(t, p, other).(*claim)
	if !isPacked || !alsoPacked || a.shape != b.shape || a.home != b.home {
		t.Errorf("two bound claims are kept as %T and %T, want packed ones that share shape and home", a, b)
	}
	c, isPacked := packs(t, p, first).(*allocation)
	d, alsoPacked := packs(t, p, second).(*allocation)
	if !isPacked || !alsoPacked || c.shape != d.shape || c.home != a.home {
		t.Errorf("two records are kept as %T and %T, want packed ones that share shape and home", c, d)
	}
}

// The allocation ID of a claim, and of a record, takes 16 bytes, and makes no shape of its own. A value that is not an
// allocation ID is kept, too.
func TestTransform_KeepsAllocationIDs(t *testing.T) {
	t.Parallel()
	p, shapes := &Packer{}, map[any]bool{}
	for i, id := range []types.UID{"", "c1d2e3f4-0102-8304-9506-0708090a0b0c", "c1d2e3f4-0102-8304-9506-0708090a0b0d", "0b8a3a0e-6f0b-4d43-9d5a-000000000001"} {
		one, first := bound(i)
		one.Status.AllocationID, first.Spec.ClaimRef.AllocationID = id, id
		a, isPacked := packs(t, p, one).(*claim)
		b, alsoPacked := packs(t, p, first).(*allocation)
		if !isPacked || !alsoPacked {
			t.Fatalf("a claim and a record of %q are not packed", id)
		}
		shapes[a.shape], shapes[b.shape] = true, true
	}
	if len(shapes) != 2 {
		t.Errorf("there are %d shapes of claims and records with different IDs, want 2", len(shapes))
	}
	for _, odd := range []types.UID{"none", "C1D2E3F4-0102-8304-9506-0708090A0B0C", "00000000-0000-0000-0000-000000000000"} {
		one, first := bound(9)
		one.Status.AllocationID, first.Spec.ClaimRef.AllocationID = odd, odd
		packs(t, p, one)
		packs(t, p, first)
	}
}

// Claims and records with numbers share few shapes: one for each count of binary digits.
func TestTransform_SharesTheShapesOfNumbers(t *testing.T) {
	t.Parallel()
	p, shapes := &Packer{}, map[any]bool{}
	for i := range 256 {
		one, first := bound(i)
		one.Status.Number, first.Status.Number = new(int64(i)), new(int64(i))
		a, isPacked := packs(t, p, one).(*claim)
		b, alsoPacked := packs(t, p, first).(*allocation)
		if !isPacked || !alsoPacked {
			t.Fatalf("claim and record %d are not packed", i)
		}
		shapes[a.shape], shapes[b.shape] = true, true
	}
	if len(shapes) != 2*9 {
		t.Errorf("there are %d shapes of 256 claims and records, want 18", len(shapes))
	}
}

// Go allocates memory in blocks of fixed sizes, such as 128 and 160 bytes. A packed claim and a packed record fit into
// these two.
func TestSize_FitsTheBlocksThatGoAllocates(t *testing.T) {
	t.Parallel()
	for kind, size := range map[string][2]uintptr{
		"claim":  {unsafe.Sizeof(claim{}), 128},
		"record": {unsafe.Sizeof(allocation{}), 160},
	} {
		if size[0] > size[1] {
			t.Errorf("a packed %s has %d bytes; want %d at most", kind, size[0], size[1])
		}
	}
}

// The getters of a packed object return the same as those of its unpacked copy.
func TestHead_ReadsLikeTheUnpackedCopy(t *testing.T) {
	t.Parallel()
	whole, _ := bound(7)
	whole.Annotations[decode.Mark] = "mine"
	whole.Finalizers, whole.DeletionTimestamp = []string{"example.com/stays"}, new(metav1.Unix(1_700_000_100, 0))
	kept := packs(t, &Packer{}, whole).(client.Object)
	if _, ok := kept.(*claim); !ok {
		t.Fatalf("the claim is kept as %T, want a packed one", kept)
	}
	whole.ManagedFields = nil
	sameMeta(t, kept, whole)
}

// sameMeta fails the test unless the metadata of a kept object reads as that of the whole one.
func sameMeta(t *testing.T, kept, whole client.Object) {
	t.Helper()
	getters := reflect.TypeFor[metav1.Object]()
	for method := range getters.Methods() {
		name := method.Name
		if method.Type.NumIn() > 0 {
			continue
		}
		got := reflect.ValueOf(kept).MethodByName(name).Call(nil)[0].Interface()
		want := reflect.ValueOf(whole).MethodByName(name).Call(nil)[0].Interface()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

// Every field of an object is kept, even a field that no controller writes.
func TestTransform_LosesNothing(t *testing.T) {
	t.Parallel()
	p, fill := &Packer{}, filler(rand.New(rand.NewSource(1)))
	for range 500 {
		claim, record := bound(3)
		fill.Fill(&claim.Status)
		fill.Fill(&record.Status)
		packs(t, p, claim)
		packs(t, p, record)
		fill.Fill(claim)
		fill.Fill(record)
		packs(t, p, claim)
		packs(t, p, record)
	}
}

// Claims and records that differ from others in one field are kept as they are.
func TestTransform_KeepsAFieldThatDiffers(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*ipamv1alpha1.IPClaim, *ipamv1alpha1.IPAllocation){
		"the claim named by the record": func(_ *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) { r.Spec.ClaimRef = nil },
		"a record that is retained": func(_ *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			r.Spec.ClaimRef, r.Annotations[ipamv1alpha1.AnnotationRetainedFrom] = nil, "web-1/0b8a3a0e-6f0b-4d43-9d5a-000000000001"
		},
		"a record that is retained from an allocation ID": func(_ *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			from := "web-1/0b8a3a0e-6f0b-4d43-9d5a-000000000001/c1d2e3f4-0102-8304-9506-0708090a0b0c"
			r.Spec.ClaimRef, r.Annotations[ipamv1alpha1.AnnotationRetainedFrom] = nil, from
		},
		"no name in the record": func(_ *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) { r.Spec.ClaimRef.Name = "" },
		"an UID in capitals": func(c *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			c.UID = "0B8A3A0E-6F0B-4D43-9D5A-000000000001"
		},
		"an UID that is none":         func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) { c.UID, r.Spec.ClaimRef.UID = "uid", "" },
		"a version that is no number": func(c *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) { c.ResourceVersion = "007" },
		"no cluster": func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			c.Annotations, r.Annotations = nil, map[string]string{}
		},
		"another time of one condition": func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			c.Status.Conditions[1].LastTransitionTime = metav1.Unix(5, 0)
			r.Status.Conditions[0].LastTransitionTime = metav1.Time{Time: time.Unix(5, 7)}
		},
		"a CIDR with host bits": func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			c.Status.AllocatedCIDR, r.Status.AllocatedCIDR = "10.0.0.1/24", "010.0.0.1/32"
		},
		"the mark of a shape": func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			c.Status.Address, r.Status.Address = own, own
		},
		"another record": func(c *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			c.Status.BoundAllocationRef.Name = "alloc-x"
		},
		"a consumer": func(c *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			c.Spec.OwnerRef = &ipamv1alpha1.OwnerRef{Kind: "VM", Name: "v"}
		},
		"a message of two CIDRs": func(c *ipamv1alpha1.IPClaim, _ *ipamv1alpha1.IPAllocation) {
			c.Status.Conditions[0].Message = "10.0.0.1/32 10.0.0.1/32"
		},
		"nothing bound": func(c *ipamv1alpha1.IPClaim, r *ipamv1alpha1.IPAllocation) {
			c.Status, r.Status = ipamv1alpha1.IPClaimStatus{}, ipamv1alpha1.IPAllocationStatus{}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &Packer{}
			for i := range 3 { // with the shape of others, with its own, and beside others again
				claim, record := bound(1)
				if i > 0 {
					change(claim, record)
				}
				packs(t, p, claim)
				packs(t, p, record)
			}
			claim, record := bound(2)
			packs(t, p, claim)
			packs(t, p, record)
		})
	}
}

// filler fills objects at random with values that may be read from a server.
func filler(random *rand.Rand) *randfill.Filler {
	return randfill.New().RandSource(random).NilChance(0.3).NumElements(0, 3).MaxDepth(6).Funcs(
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1<<32), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) {},
	)
}

// The cache keeps the identity of a binding, whether it accepts events, and whether it serves its workspace.
func TestTransform_ReducesABinding(t *testing.T) {
	t.Parallel()
	ready := conditionsv1alpha1.Condition{Type: conditionsv1alpha1.ReadyCondition, Status: "True"}
	events := apisv1alpha2.AcceptablePermissionClaim{State: apisv1alpha2.ClaimAccepted}
	events.Resource = "events"
	want := func(name string) *apisv1alpha2.APIBinding {
		return &apisv1alpha2.APIBinding{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: "0b8a3a0e-6f0b-4d43-9d5a-000000000001", ResourceVersion: "7", Generation: 2,
				CreationTimestamp: metav1.Unix(1_700_000_000, 0), DeletionTimestamp: new(metav1.Unix(1_700_000_100, 0)),
				Annotations: map[string]string{clusterAnnotation: "c", "kcp.io/path": "root:c"},
			},
			Spec:   apisv1alpha2.APIBindingSpec{PermissionClaims: []apisv1alpha2.AcceptablePermissionClaim{events}},
			Status: apisv1alpha2.APIBindingStatus{Conditions: conditionsv1alpha1.Conditions{ready}},
		}
	}
	p, kept := &Packer{}, [2]*binding{}
	for i, name := range []string{"ipam", "ipam-2"} {
		whole := want(name)
		whole.ManagedFields, whole.Annotations["apis.v1alpha2.kcp.io/any"] = []metav1.ManagedFieldsEntry{{Manager: "kcp"}}, "[]"
		whole.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: "root:platform", Name: "ipam"}
		whole.Spec.PermissionClaims = append(whole.Spec.PermissionClaims, apisv1alpha2.AcceptablePermissionClaim{State: apisv1alpha2.ClaimAccepted})
		whole.Status.BoundResources = []apisv1alpha2.BoundAPIResource{{Resource: "ipclaims"}}
		whole.Status.Conditions = conditionsv1alpha1.Conditions{{Type: "APIExportValid", Status: "True"}, ready}
		got, err := p.Transform(whole)
		if err != nil || !reflect.DeepEqual(Whole(got.(client.Object)), want(name)) {
			t.Fatalf("Transform = %+v, %v; want %+v", Whole(got.(client.Object)), err, want(name))
		}
		sameMeta(t, got.(client.Object), want(name))
		if kept[i], _ = got.(*binding); kept[i] == nil {
			t.Fatalf("the binding is kept as %T, want a packed one", got)
		}
	}
	if kept[0].shape != kept[1].shape {
		t.Error("two bindings that differ by their names alone share no shape")
	}
}

// If a binding has unusual values in the fields that are kept, they are kept, too.
func TestTransform_KeepsUnusualValuesOfABinding(t *testing.T) {
	t.Parallel()
	p, fill := &Packer{}, filler(rand.New(rand.NewSource(1)))
	for range 500 {
		whole := &apisv1alpha2.APIBinding{}
		fill.Fill(whole)
		want := reduced(whole.DeepCopy())
		got, err := p.Transform(whole)
		if err != nil || !reflect.DeepEqual(Whole(got.(client.Object)), client.Object(want)) {
			t.Fatalf("Transform = %+v, %v; want %+v", Whole(got.(client.Object)), err, want)
		}
		sameMeta(t, got.(client.Object), want)
	}
}
