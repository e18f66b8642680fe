package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// kcp itself behaves as the controllers' patches need it: a status patch with an older resourceVersion is a conflict,
// with the newer one it leaves another writer's change in place, and an empty patch writes nothing. The kind here may
// be written by anybody.
func TestPatch_BesideAnothersChange(t *testing.T) {
	t.Parallel()
	admin := framework.Admin(t, "root")
	namespace := &corev1.Namespace{}
	namespace.Name = framework.Name(t)
	framework.Create(t, admin, namespace)
	stale := namespace.DeepCopy()
	framework.Update(t, admin, namespace, func(n *corev1.Namespace) { n.Labels = map[string]string{"by": "another"} })

	err := admin.Status().Patch(t.Context(), stale.DeepCopy(), statusPatch(t, stale.ResourceVersion, "Ours"))
	if !apierrors.IsConflict(err) {
		t.Fatalf("a status patch with version %s of an object at %s = %v, want a conflict", stale.ResourceVersion, namespace.ResourceVersion, err)
	}
	got := stale.DeepCopy()
	if err := admin.Status().Patch(t.Context(), got, statusPatch(t, namespace.ResourceVersion, "Ours")); err != nil {
		t.Fatalf("a status patch with the version that is stored: %v", err)
	}
	if types := conditionTypes(got); !slices.Equal(types, []string{"Ours"}) || got.Labels["by"] != "another" {
		t.Errorf("conditions %v and labels %v; want Ours, and the label of another", types, got.Labels)
	}

	version := got.ResourceVersion
	must.Do(t, admin.Status().Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte("{}"))))
	if got.ResourceVersion != version {
		t.Errorf("an empty patch has written the object: version %s became %s", version, got.ResourceVersion)
	}
}

// statusPatch returns a patch that sets a condition, provided that the object still has this version.
func statusPatch(t *testing.T, version, condition string) client.Patch {
	t.Helper()
	data := must.Get(json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": condition, "status": corev1.ConditionTrue}}},
	}))(t)
	return client.RawPatch(types.MergePatchType, data)
}

func conditionTypes(namespace *corev1.Namespace) []string {
	var types []string
	for _, condition := range namespace.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	slices.Sort(types)
	return types
}
