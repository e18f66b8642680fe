package main

import (
	"slices"
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// parseOwner reads the object that uses an address: KIND/NAME or KIND/NAMESPACE/NAME. The kind
// is followed by its group, unless that is the core group. Nil for no text.
func parseOwner(text string) (*ipamv1alpha1.OwnerRef, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return nil, usagef("--owner is %q; write KIND/NAMESPACE/NAME, or KIND/NAME for a kind without namespaces, "+
			"such as Service/default/web or Machine.example.com/default/m-1", text)
	}
	ref := &ipamv1alpha1.OwnerRef{Name: parts[len(parts)-1]}
	ref.Kind, ref.APIGroup, _ = strings.Cut(parts[0], ".")
	if len(parts) == 3 {
		ref.Namespace = parts[1]
	}
	return ref, nil
}
