package promise

import (
	"crypto/rand"
	"crypto/sha256"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// half is the length of the random part of an ID. The rest is a checksum of that part and of the claim's workspace,
// namespace and name. So a copy of an ID in another claim is no ID of that claim. The checksum stays valid when the
// namespaces of a cluster become its tenants.
const half = 8

// NewID makes the ID by which a claim that is being created will hold its block.
func NewID(cluster ledger.ClusterName, namespace, name string) ledger.ClaimID {
	var id uuid.UUID
	_, _ = rand.Read(id[:half]) // it never fails
	return ledger.ClaimID(complete(id, cluster, namespace, name).String())
}

// complete makes a UUID of version 8 from its random part.
func complete(id uuid.UUID, cluster ledger.ClusterName, namespace, name string) uuid.UUID {
	id[6] = id[6]&0x0f | 0x80
	sum := sha256.Sum256(fmt.Appendf(id[:half:half], "%s/%s/%s", cluster.Plain(), namespace, name))
	copy(id[half:], sum[:])
	id[half] = id[half]&0x3f | 0x80
	return id
}

// Fits reports whether an ID was made for a claim of this name.
func Fits(id types.UID, cluster ledger.ClusterName, namespace, name string) bool {
	read, err := uuid.Parse(string(id))
	return err == nil && read.String() == string(id) && complete(read, cluster, namespace, name) == read
}

// IDOf returns the ID by which a claim of a workspace holds its block.
func IDOf(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) ledger.ClaimID {
	if id := claim.Status.AllocationID; claim.Status.AllocatedCIDR != "" &&
		Fits(id, cluster, claim.Namespace, claim.Name) {
		return ledger.ClaimID(id)
	}
	return ledger.ClaimID(claim.UID)
}

// Is reports whether an ID is the UID of a claim, or the allocation ID that the claim shows.
func Is(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim, id ledger.ClaimID) bool {
	return id == ledger.ClaimID(claim.UID) || id == IDOf(cluster, claim)
}

// HolderOf returns a claim of a workspace as the holder of a block.
func HolderOf(cluster ledger.ClusterName, claim *ipamv1alpha1.IPClaim) ledger.Holder {
	return ledger.Holder{Claim: IDOf(cluster, claim), Cluster: cluster, Namespace: claim.Namespace, Name: claim.Name}
}
