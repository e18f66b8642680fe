package ledger

import "testing"

// An allocation ID is told from the UIDs of Kubernetes by its version, and from the IDs of pools.
func TestIsAllocationID_NeedsAUUIDOfVersion8(t *testing.T) {
	derived := DerivedID("c", "w", Scope{})
	for id, want := range map[ClaimID]bool{
		"7f1c2a90-5b1e-8c3d-9a77-0123456789ab": true,
		"7f1c2a90-5b1e-4c3d-9a77-0123456789ab": false,
		"7f1c2a90-5b1e-7c3d-8a77-0123456789ab": false,
		"7f1c2a905b1e-8c3d-9a77-0123456789abc": false,
		"7f1c2a90-5b1e-8c3d-9a77-0123456789a":  false,
		"a-pool-of-some-8ame-of-36-characters": false,
		ClaimID(derived):                       false,
		"":                                     false,
	} {
		if got := IsAllocationID(id); got != want {
			t.Errorf("IsAllocationID(%q) = %t, want %t", id, got, want)
		}
	}
}
