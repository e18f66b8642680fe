package plan

import (
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// ParseOwner reads the object that uses an address: KIND/NAME or KIND/NAMESPACE/NAME. The kind is
// followed by its group, unless that is the core group. ok is false for any other text.
func ParseOwner(text string) (_ *ipamv1alpha1.OwnerRef, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return nil, false
	}
	ref := &ipamv1alpha1.OwnerRef{Name: parts[len(parts)-1]}
	ref.Kind, ref.APIGroup, _ = strings.Cut(parts[0], ".")
	if len(parts) == 3 {
		ref.Namespace = parts[1]
	}
	return ref, true
}

// ownerText is what ParseOwner reads.
func ownerText(ref *ipamv1alpha1.OwnerRef) string {
	kind := ref.Kind
	if ref.APIGroup != "" {
		kind += "." + ref.APIGroup
	}
	if ref.Namespace == "" {
		return kind + "/" + ref.Name
	}
	return kind + "/" + ref.Namespace + "/" + ref.Name
}
