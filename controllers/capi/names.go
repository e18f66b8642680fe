package capi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// LabelOrigin is on every IPClaim in a workspace that was made for an IPAddressClaim. Its value is [Names.Origin].
const LabelOrigin = ipamv1alpha1.GroupName + "/management-cluster"

// prefix begins the name of every IPClaim of an IPAddressClaim.
const prefix = "capi-"

// Names say which IPClaim is that of an IPAddressClaim. With the zero value, IPClaims are in the same cluster and
// namespace as their IPAddressClaims.
type Names struct {
	// Origin is the identity of the management cluster: the UID of its namespace kube-system. It is a part of the name of
	// each IPClaim, because several management clusters may share a workspace. Empty: IPClaims are in the management
	// cluster itself.
	Origin types.UID
	// Namespace is the namespace of all IPClaims in the workspace. Required with Origin, else empty.
	Namespace string
}

// beside reports whether IPClaims are in a workspace, and not in the management cluster.
func (n Names) beside() bool { return n.Origin != "" }

// claim returns the key of the IPClaim of an IPAddressClaim.
func (n Names) claim(key client.ObjectKey) client.ObjectKey {
	if !n.beside() {
		return client.ObjectKey{Namespace: key.Namespace, Name: claimName(key.Name)}
	}
	const most = validation.DNS1123SubdomainMaxLength - len(prefix) - 1 - sha256.Size
	sum := sha256.Sum256([]byte(string(n.Origin) + "/" + key.Namespace + "/" + key.Name))
	readable := key.Name[:min(len(key.Name), most)]
	// 128 bits are enough: nobody can find two names with the same 128 bits.
	name := prefix + strings.TrimRight(readable, ".-") + "-" + hex.EncodeToString(sum[:sha256.Size/2])
	return client.ObjectKey{Namespace: n.Namespace, Name: name}
}

// claimName returns the name of the IPClaim of an IPAddressClaim in the same namespace.
func claimName(name string) string {
	if len(prefix)+len(name) <= validation.DNS1123SubdomainMaxLength {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

// consumer returns the key of the IPAddressClaim that an IPClaim is for; false if the IPClaim is for no IPAddressClaim
// of this management cluster. It reads only fields that cannot be changed: the name and spec.ownerRef.
func (n Names) consumer(claim *ipamv1alpha1.IPClaim) (client.ObjectKey, bool) {
	ref := claim.Spec.OwnerRef
	if ref == nil || ref.APIGroup != capiv1.GroupVersion.Group || ref.Kind != kindClaim {
		return client.ObjectKey{}, false
	}
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	if n.claim(key) != client.ObjectKeyFromObject(claim) {
		return client.ObjectKey{}, false
	}
	return key, true
}

// owns reports whether an IPClaim is that of the IPAddressClaim with this key.
func (n Names) owns(key client.ObjectKey, claim *ipamv1alpha1.IPClaim) bool {
	consumer, ok := n.consumer(claim)
	return ok && consumer == key
}

// mark labels an IPClaim in a workspace with its management cluster.
func (n Names) mark(claim *ipamv1alpha1.IPClaim) {
	if n.beside() {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, LabelOrigin, string(n.Origin))
	}
}
