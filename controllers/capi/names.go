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

// LabelOrigin is on every IPClaim in a workspace that is for an IPAddressClaim. Its value is
// [Names.Origin].
const LabelOrigin = ipamv1alpha1.GroupName + "/management-cluster"

// prefix begins the name of every IPClaim of an IPAddressClaim.
const prefix = "capi-"

// Names say which IPClaim is that of an IPAddressClaim. The zero value is for IPClaims in the
// cluster and the namespace of their IPAddressClaims.
type Names struct {
	// Origin is the identity of the management cluster, if IPClaims are in a workspace that others
	// may use, too: the UID of its namespace kube-system. It is a part of the name of each IPClaim,
	// so that no two management clusters have the same. Empty: IPClaims are in the cluster itself.
	Origin types.UID
	// Namespace has all IPClaims in that workspace. Required with Origin, else empty.
	Namespace string
}

// beside reports whether IPClaims are in a workspace beside the management cluster.
func (n Names) beside() bool { return n.Origin != "" }

// claim is the key of the IPClaim of an IPAddressClaim.
func (n Names) claim(key client.ObjectKey) client.ObjectKey {
	if !n.beside() {
		return client.ObjectKey{Namespace: key.Namespace, Name: claimName(key.Name)}
	}
	const most = validation.DNS1123SubdomainMaxLength - len(prefix) - 1 - sha256.Size
	sum := sha256.Sum256([]byte(string(n.Origin) + "/" + key.Namespace + "/" + key.Name))
	readable := key.Name[:min(len(key.Name), most)]
	// Half of the sum: names that agree in 128 bits cannot be found.
	name := prefix + strings.TrimRight(readable, ".-") + "-" + hex.EncodeToString(sum[:sha256.Size/2])
	return client.ObjectKey{Namespace: n.Namespace, Name: name}
}

// claimName is the name of the IPClaim of an IPAddressClaim of the same namespace.
func claimName(name string) string {
	if len(prefix)+len(name) <= validation.DNS1123SubdomainMaxLength {
		return prefix + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:])
}

// consumer is the key of the IPAddressClaim that an IPClaim is for; false if it is for none, or for
// one of another management cluster. It goes by what cannot be changed: the name, and spec.ownerRef.
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

// owns reports whether an IPClaim is that of an IPAddressClaim.
func (n Names) owns(key client.ObjectKey, claim *ipamv1alpha1.IPClaim) bool {
	consumer, ok := n.consumer(claim)
	return ok && consumer == key
}

// mark labels an IPClaim in a workspace with the management cluster that it is for.
func (n Names) mark(claim *ipamv1alpha1.IPClaim) {
	if n.beside() {
		metav1.SetMetaDataLabel(&claim.ObjectMeta, LabelOrigin, string(n.Origin))
	}
}
