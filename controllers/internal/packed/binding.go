package packed

import (
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// binding is a packed APIBinding.
type binding struct {
	head[*apisv1alpha2.APIBinding]
	cluster, path string // of its workspace
}

// nowhere is the home of all bindings. A binding keeps its annotations itself.
var nowhere = &home{}

// reduced returns a copy of an APIBinding that keeps only the binding's identity, its workspace, whether it accepts
// events, and whether it serves the workspace. The controllers read no other field, and write none. kcp writes several
// KiB about schemas and permissions into each binding, and users may write as much as they like.
func reduced(b *apisv1alpha2.APIBinding) *apisv1alpha2.APIBinding {
	rest := &apisv1alpha2.APIBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion, Generation: b.Generation,
			CreationTimestamp: b.CreationTimestamp, DeletionTimestamp: b.DeletionTimestamp,
		},
	}
	if AcceptsEvents(b) {
		rest.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{State: apisv1alpha2.ClaimAccepted}}
		rest.Spec.PermissionClaims[0].Resource = "events"
	}
	for _, name := range []string{logicalcluster.AnnotationKey, core.LogicalClusterPathAnnotationKey} {
		if value, ok := b.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&rest.ObjectMeta, name, value)
		}
	}
	for _, c := range b.Status.Conditions {
		if c.Type == conditionsv1alpha1.ReadyCondition {
			rest.Status.Conditions = conditionsv1alpha1.Conditions{{Type: conditionsv1alpha1.ReadyCondition, Status: c.Status}}
		}
	}
	return rest
}

// AcceptsEvents reports whether a binding, packed or not, lets the controller write events into its workspace.
func AcceptsEvents(b *apisv1alpha2.APIBinding) bool {
	return slices.ContainsFunc(b.Spec.PermissionClaims, func(c apisv1alpha2.AcceptablePermissionClaim) bool {
		return c.Group == "" && c.Resource == "events" && c.State == apisv1alpha2.ClaimAccepted
	})
}

// bindingKey has the values that bindings of one shape usually have in common.
type bindingKey struct {
	generation int64
	leaving    bool
	conditions int
}

func keyOfBinding(b *apisv1alpha2.APIBinding) bindingKey {
	return bindingKey{b.Generation, b.DeletionTimestamp != nil, len(b.Status.Conditions)}
}

// newBinding packs a binding by a shape. The caller unpacks it, to check that the binding has that shape.
func newBinding(b, shape *apisv1alpha2.APIBinding) *binding {
	p := &binding{
		head:    newHead(nowhere, shape, &b.ObjectMeta, nil),
		cluster: b.Annotations[logicalcluster.AnnotationKey], path: b.Annotations[core.LogicalClusterPathAnnotationKey],
	}
	p.rare = nil // GetAnnotations makes the annotations of a binding
	return p
}

// shapeOfBinding returns the shape of bindings like this one.
func shapeOfBinding(b *apisv1alpha2.APIBinding) *apisv1alpha2.APIBinding {
	shape := b.DeepCopy()
	blank(&shape.ObjectMeta)
	return shape
}

// whole returns the binding as it was before it was packed.
func (p *binding) whole() *apisv1alpha2.APIBinding {
	b := p.shape.DeepCopy()
	p.head.whole(&b.ObjectMeta)
	b.Annotations = p.GetAnnotations()
	return b
}

// GetAnnotations implements metav1.Object. kcp sets two annotations on each binding. Each call makes a new map: a map
// that is kept would be the largest part of a packed binding, and bindings have few events.
func (p *binding) GetAnnotations() map[string]string {
	return map[string]string{logicalcluster.AnnotationKey: p.cluster, core.LogicalClusterPathAnnotationKey: p.path}
}

// DeepCopyObject implements runtime.Object. The copy is unpacked.
func (p *binding) DeepCopyObject() runtime.Object { return p.whole() }
