package v1alpha1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

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
	// tenants. The class controller sets it; users need not.
	LabelPublished = GroupName + "/published"

	// AnnotationController is, on a class, the version of the controller that serves it. The class
	// controller writes it once after each of its starts.
	AnnotationController = GroupName + "/controller-version"

	// AnnotationDescription is, on a pool or a claim, what its owner says about it. The system does
	// not read it. It is the annotation that Kubernetes names for any kind.
	AnnotationDescription = "kubernetes.io/description"

	// AnnotationExclusions has, on a pool, the names and descriptions of its excludedCIDRs, as
	// `[{"cidr":"10.8.255.0/24","name":"printers","description":"hall 1"}]`. kubectl ipam import writes it, and
	// the system does not read it.
	AnnotationExclusions = GroupName + "/exclusions"

	// AnnotationUsage is, on an IPPool, how many addresses of it were used at some times of the last
	// month, as "1767225600=12 1767229200=40": seconds since 1970, and addresses. The system writes
	// it at most once an hour, when the number has changed.
	AnnotationUsage = GroupName + "/usage"

	// AnnotationRetainedFrom names, on a retained IPAllocation, the claim that its
	// block was given to, as name/UID, or as name/UID/allocationID if it had one. The system writes it.
	AnnotationRetainedFrom = GroupName + "/retained-from"

	// AnnotationMovedFrom is, on a claim, the namespace/name of the claim whose block it takes over. kubectl ipam writes
	// and reads it, to resume a move.
	AnnotationMovedFrom = GroupName + "/moved-from"

	// AnnotationAllowSweep, on a pool, lets sweeps free any number of its orphans until
	// the time that it gives, in the form of RFC 3339.
	AnnotationAllowSweep = GroupName + "/allow-sweep-until"

	// LabelSlice is, on a pool that is the slice of a workspace, the UID of the
	// platform's pool that it is a slice of. The system gives it, and admission
	// keeps everybody else from it: a slice is carved from a pool that tenants may
	// not name.
	LabelSlice = GroupName + "/slice-of"

	// LabelProvisionedBy is, on a pool that the system has made by poolPer of a class, the name of that
	// class, as [LabelValue] writes it. Admission keeps everybody else from it and from the next two. They are
	// for people and selectors: the ledger says which pool is which.
	LabelProvisionedBy = GroupName + "/provisioned-by"

	// LabelScopeDigest is, on such a pool, the begin of status.scopeDigest.
	LabelScopeDigest = GroupName + "/scope-digest"

	// LabelProvisionedFor is, on such a pool, the workspace that has it; on one that all workspaces share, the workspace
	// whose claim was the first to need it, for which it counts. No tenant can read that pool.
	LabelProvisionedFor = GroupName + "/provisioned-for"

	// FinalizerPool holds a pool until the ledger has let go of its last block.
	FinalizerPool = GroupName + "/pool"

	// FinalizerAddressClaim holds an IPAddressClaim of Cluster API until its address is given back, and its
	// IPClaim for as long.
	FinalizerAddressClaim = GroupName + "/ip-address-claim"

	// MaxFinalizers is how many finalizers a claim or a pool may have, by the policy ipam-metadata.
	MaxFinalizers = 16

	// MaxLabels is how many labels a claim or a pool may have, by the policy ipam-metadata.
	MaxLabels = 64
)

// LabelValue writes a name as the value of a label, which has at most 63 characters: a longer one is
// cut, and ends in a part of its hash.
func LabelValue(name string) string {
	const most, digits = 63, 8
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.TrimRight(name[:most-digits-1], "-.") + "-" + hex.EncodeToString(sum[:])[:digits]
}

// AllocationName is the usual name of the IPAllocation of a claim: alloc- and the first
// 16 hexadecimal digits of SHA-256 of <namespace>/<claim name>.
//
// Two claim names whose hashes agree in these digits can be found on purpose. So a record
// of this name belongs to the claim only if it names the claim; see AllocationNames.
func AllocationName(namespace, claimName string) string {
	return AllocationNames(namespace, claimName)[0]
}

// AllocationNames are the names that the IPAllocation of a claim may have, the usual one
// first. The other has all 64 digits of the hash, and is used while the usual name belongs
// to a record of another claim name. Conclude nothing about a claim from a record that
// names another one: status.boundAllocationRef of the claim says which is its own.
func AllocationNames(namespace, claimName string) [2]string {
	sum := sha256.Sum256([]byte(namespace + "/" + claimName))
	digits := hex.EncodeToString(sum[:])
	return [2]string{"alloc-" + digits[:16], "alloc-" + digits}
}

// HeldBy returns the name and UID of the claim that an allocation was made for,
// also after it was retained.
func (a *IPAllocation) HeldBy() (name string, uid types.UID) {
	if ref := a.Spec.ClaimRef; ref != nil {
		return ref.Name, ref.UID
	}
	name, ids, _ := strings.Cut(a.Annotations[AnnotationRetainedFrom], "/")
	former, _, _ := strings.Cut(ids, "/")
	return name, types.UID(former)
}

// AllocationID returns the ID by which the claim of HeldBy holds the block, or has held it: the one that its status
// shows, or its UID.
func (a *IPAllocation) AllocationID() types.UID {
	if ref := a.Spec.ClaimRef; ref != nil {
		return cmp.Or(ref.AllocationID, ref.UID)
	}
	_, ids, _ := strings.Cut(a.Annotations[AnnotationRetainedFrom], "/")
	uid, id, _ := strings.Cut(ids, "/")
	return types.UID(cmp.Or(id, uid))
}

// ExpiresAt returns when a retained IPAllocation expires; zero if it does not.
func (a *IPAllocation) ExpiresAt() time.Time {
	if a.Status.Expires == nil {
		return time.Time{}
	}
	return a.Status.Expires.UTC()
}
