package v1alpha1

import "testing"

func TestAllocationName(t *testing.T) {
	// printf default/web | sha256sum | cut -c1-16
	const want = "alloc-82b3ade9d00cd164"
	if got := AllocationName("default", "web"); got != want {
		t.Errorf("AllocationName(default, web) = %s, want %s", got, want)
	}
}
