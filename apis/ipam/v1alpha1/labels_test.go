package v1alpha1

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestAllocationName(t *testing.T) {
	// printf default/web | sha256sum | cut -c1-16
	const want = "alloc-82b3ade9d00cd164"
	if got := AllocationName("default", "web"); got != want {
		t.Errorf("AllocationName(default, web) = %s, want %s", got, want)
	}
}

// Two claim names whose usual record names agree have different long ones.
func TestAllocationNames_Collision(t *testing.T) {
	a, b := AllocationNames("default", "2a7c25e5b575ed5f"), AllocationNames("default", "2cd5d5eac5890ce7")
	if a[0] != b[0] || a[0] != "alloc-590c366b6edf2181" {
		t.Errorf("the usual names are %s and %s; want alloc-590c366b6edf2181 for both", a[0], b[0])
	}
	if a[1] == b[1] {
		t.Errorf("both long names are %s; want two", a[1])
	}
}

// The names of a record are object names, however long that of the claim is, and the
// long name is of this claim alone: no claim name or namespace holds a slash.
func FuzzAllocationNames(f *testing.F) {
	f.Add("default", "web", "default", "db")
	f.Add("a", "b", "a-b", "")
	f.Add("n", strings.Repeat("x", 253), "n", strings.Repeat("x", 252))
	f.Add("n", "alloc-82b3ade9d00cd164", "default", "web")
	f.Add("default", "2a7c25e5b575ed5f", "default", "2cd5d5eac5890ce7")
	f.Fuzz(func(t *testing.T, namespace, claim, otherNamespace, other string) {
		names := AllocationNames(namespace, claim)
		for i, digits := range []int{16, 64} {
			if len(names[i]) != len("alloc-")+digits || len(validation.IsDNS1123Subdomain(names[i])) > 0 || !strings.HasPrefix(names[i], names[0]) {
				t.Errorf("AllocationNames(%q, %q)[%d] = %q; want alloc- and %d digits of one hash", namespace, claim, i, names[i], digits)
			}
		}
		if strings.Contains(namespace+otherNamespace, "/") || namespace == otherNamespace && claim == other {
			return
		}
		if names[1] == AllocationNames(otherNamespace, other)[1] {
			t.Errorf("claims %q/%q and %q/%q share the record %s", namespace, claim, otherNamespace, other, names[1])
		}
	})
}

// A record whose claim is there names the claim's UID and the ID by which that holds the block.
func TestAllocationID_FallsBackToTheUID(t *testing.T) {
	for allocation, want := range map[types.UID]types.UID{"": "uid", "id": "id"} {
		record := &IPAllocation{Spec: IPAllocationSpec{ClaimRef: &ClaimRef{Name: "web", UID: "uid", AllocationID: allocation}}}
		name, uid := record.HeldBy()
		if got := record.AllocationID(); name != "web" || uid != "uid" || got != want {
			t.Errorf("with %q the record is of %q, %q, by %q; want web, uid, by %q", allocation, name, uid, got, want)
		}
	}
}

// What a retained record says of its claim is read back as it was written.
func FuzzHeldBy(f *testing.F) {
	f.Add("web", "0b1f1c2e-6a51-4f0e-8c5e-2f1f0e6d7a11", "")
	f.Add("web", "0b1f1c2e-6a51-4f0e-8c5e-2f1f0e6d7a11", "7f1c2a90-5b1e-8c3d-9a77-0123456789ab")
	f.Add("", "", "")
	f.Add("a.b-c", "x", "y/z")
	f.Fuzz(func(t *testing.T, claim, id, allocation string) {
		if strings.Contains(claim+id, "/") {
			return
		}
		from, want := claim+"/"+id, id
		if allocation != "" {
			from, want = from+"/"+allocation, allocation
		}
		record := &IPAllocation{}
		record.Annotations = map[string]string{AnnotationRetainedFrom: from}
		name, uid := record.HeldBy()
		if got := record.AllocationID(); name != claim || uid != types.UID(id) || got != types.UID(want) {
			t.Errorf("%q is read as %q, %q, %q; want %q, %q, %q", from, name, uid, got, claim, id, want)
		}
	})
}
