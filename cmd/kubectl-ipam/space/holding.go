package space

import (
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Kind is what holds a block.
type Kind uint8

const (
	// Claimed is a block that a claim holds.
	Claimed Kind = iota
	// Retained is a block whose claim is gone, and which its reclaim policy keeps.
	Retained
	// Child is the block of a pool that was carved from the pool.
	Child
)

// Holding is a block of a pool that the caller may see.
type Holding struct {
	Block netip.Prefix
	Kind  Kind
	// Slice is set for a child pool that every workspace gets. Limits do not count it.
	Slice bool
	// Name is that of the claim, as namespace/name, or of the child pool. A retained block of an
	// unknown claim has that of its namespace.
	Name string
	// Workspace is that of the holder; empty for the current one.
	Workspace string
	// Holder names the holder in words, with its workspace if that is another one.
	Holder string
	Class  string
	// Scope has the objects within which the block is given once, such as network=vpc-1; empty: in the pool.
	Scope string
	// Owner is the object that uses the block, such as Service/default/web; empty if the claim names none.
	Owner string
	// Since is when the record was created.
	Since metav1.Time
}

// HoldingOf is what an allocation records. Block and Workspace are left to the caller.
func HoldingOf(a *ipamv1alpha1.IPAllocation) Holding {
	claim, _ := a.HeldBy()
	h := Holding{Name: a.Namespace + "/" + claim, Class: a.Spec.ClassName, Scope: ipamv1alpha1.ScopeColumn(a.Spec.Scope), Owner: OwnerOf(a.Spec.OwnerRef), Since: a.CreationTimestamp}
	switch {
	case a.Spec.ClaimRef != nil:
		h.Holder = "claim " + h.Name
	case claim == "":
		h.Kind, h.Name, h.Holder = Retained, a.Namespace, "retained in "+a.Namespace
	default:
		h.Kind, h.Holder = Retained, "retained for "+h.Name
	}
	return h
}

// OwnerOf writes the object that uses a block as KIND/NAMESPACE/NAME, without its group; empty
// for none.
func OwnerOf(ref *ipamv1alpha1.OwnerRef) string {
	switch {
	case ref == nil:
		return ""
	case ref.Namespace == "":
		return ref.Kind + "/" + ref.Name
	default:
		return ref.Kind + "/" + ref.Namespace + "/" + ref.Name
	}
}

// In names something that may be in another workspace; an empty workspace is the current one.
func In(name, workspace string) string {
	if name == "" || workspace == "" {
		return name
	}
	return name + " of " + workspace
}
