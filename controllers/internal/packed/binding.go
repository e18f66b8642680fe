package packed

import (
	"reflect"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"github.com/kcp-dev/sdk/apis/core"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// binding leaves of an APIBinding which one it is, in which workspace, what it permits, and whether it serves
// the workspace. The controllers read no more of it, and write none. What kcp writes there about schemas
// and permissions is several KiB for each workspace. Bindings with the same spec share it.
func (p *Packer) binding(b *apisv1alpha1.APIBinding) *apisv1alpha1.APIBinding {
	kept := &apisv1alpha1.APIBinding{
		ObjectMeta: metav1.ObjectMeta{
			Name: b.Name, UID: b.UID, ResourceVersion: b.ResourceVersion, Generation: b.Generation,
			CreationTimestamp: b.CreationTimestamp, DeletionTimestamp: b.DeletionTimestamp,
		},
		Spec: b.Spec,
	}
	for _, name := range []string{logicalcluster.AnnotationKey, core.LogicalClusterPathAnnotationKey} {
		if value, ok := b.Annotations[name]; ok {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, name, value)
		}
	}
	for _, c := range b.Status.Conditions {
		if c.Type == conditionsv1alpha1.ReadyCondition {
			kept.Status.Conditions = conditionsv1alpha1.Conditions{{Type: conditionsv1alpha1.ReadyCondition, Status: c.Status}}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if reflect.DeepEqual(kept.Spec, p.spec) {
		kept.Spec = p.spec
	}
	p.spec = kept.Spec
	return kept
}
