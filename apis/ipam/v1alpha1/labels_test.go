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

// The name of a record is an object's name, however long that of the claim is, and
// another claim's record has another: no name holds a slash.
func FuzzAllocationName(f *testing.F) {
	f.Add("default", "web", "default", "db")
	f.Add("a", "b", "a-b", "")
	f.Add("n", strings.Repeat("x", 253), "n", strings.Repeat("x", 252))
	f.Add("n", "alloc-82b3ade9d00cd164", "default", "web")
	f.Fuzz(func(t *testing.T, namespace, claim, otherNamespace, other string) {
		name := AllocationName(namespace, claim)
		if len(name) != len("alloc-82b3ade9d00cd164") || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("claim %q/%q has the record %q", namespace, claim, name)
		}
		if strings.Contains(namespace+otherNamespace, "/") || namespace == otherNamespace && claim == other {
			return
		}
		if name == AllocationName(otherNamespace, other) {
			t.Errorf("claims %q/%q and %q/%q share the record %s", namespace, claim, otherNamespace, other, name)
		}
	})
}

// What a retained record says of its claim is read back as it was written.
func FuzzHeldBy(f *testing.F) {
	f.Add("web", "0b1f1c2e-6a51-4f0e-8c5e-2f1f0e6d7a11")
	f.Add("", "")
	f.Add("a.b-c", "x/y")
	f.Fuzz(func(t *testing.T, claim, id string) {
		record := &IPAllocation{}
		record.Annotations = map[string]string{AnnotationRetainedFrom: claim + "/" + id}
		name, uid := record.HeldBy()
		if !strings.Contains(claim, "/") && (name != claim || uid != types.UID(id)) {
			t.Errorf("%q, %q are read as %q, %q", claim, id, name, uid)
		}
	})
}
