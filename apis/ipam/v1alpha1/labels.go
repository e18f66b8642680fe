package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// NativeProvisioner is the provisioner served by this project, and the
	// default of spec.provisioner of a class.
	NativeProvisioner = GroupName + "/native"

	// AnnotationDefaultClass makes a class the default of its family, when it is
	// "true". The oldest such class counts.
	AnnotationDefaultClass = GroupName + "/is-default-class"

	// LabelPublished is "true" on classes that are listed in the workspaces of
	// tenants. The class controller keeps it; nobody else needs to set it.
	LabelPublished = GroupName + "/published"

	// AnnotationRetainedFrom is, on a retained IPAllocation, the claim that its
	// block was given to, as name/UID. The system writes it.
	AnnotationRetainedFrom = GroupName + "/retained-from"

	// LabelSlice is, on a pool that is the slice of a workspace, the UID of the
	// platform's pool that it is a slice of. The system gives it, and admission
	// keeps everybody else from it: a slice is carved from a pool that tenants may
	// not name.
	LabelSlice = GroupName + "/slice-of"

	// FinalizerPool holds a pool until the ledger has let go of its last block.
	FinalizerPool = GroupName + "/pool"
)

// AllocationName is the name of the IPAllocation of a claim. It depends on
// nothing else, so a claim's record is found without a lookup.
func AllocationName(namespace, claimName string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + claimName))
	return "alloc-" + hex.EncodeToString(sum[:8])
}

// HeldBy is the name and UID of the claim that an allocation was made for,
// also after it was retained.
func (a *IPAllocation) HeldBy() (name string, uid types.UID) {
	if ref := a.Spec.ClaimRef; ref != nil {
		return ref.Name, ref.UID
	}
	name, id, _ := strings.Cut(a.Annotations[AnnotationRetainedFrom], "/")
	return name, types.UID(id)
}
