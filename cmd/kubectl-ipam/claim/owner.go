package claim

import (
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/plan"
)

// parseOwner reads the object that uses an address, and its UID, which may be empty. Nil for no text.
func parseOwner(text, uid string) (*ipamv1alpha1.OwnerRef, error) {
	if text == "" && uid == "" {
		return nil, nil
	}
	ref, ok := plan.ParseOwner(text)
	if !ok {
		return nil, exit.Usagef("--owner is %q; write KIND/NAMESPACE/NAME, or KIND/NAME for a kind without namespaces, "+
			"such as Service/default/web or Machine.example.com/default/m-1", text)
	}
	ref.UID = types.UID(uid)
	return ref, nil
}
