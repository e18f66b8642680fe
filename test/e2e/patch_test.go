package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/patch"
	"github.com/kcp-ipam/ipam/test/framework"
)

// A status that is written on an older version goes on top of what others have written
// since, and to read that again writes nothing: as kcp itself sees it, on a kind that
// anybody may write.
func TestPatch_BesideAnothersChange(t *testing.T) {
	t.Parallel()
	admin := framework.Admin(t, "root")
	namespace := &corev1.Namespace{}
	namespace.Name = framework.Name(t)
	framework.Create(t, admin, namespace)
	stale := namespace.DeepCopy()

	framework.Update(t, admin, namespace, func(n *corev1.Namespace) { n.Labels = map[string]string{"by": "another"} })
	before := patch.Snapshot(namespace)
	namespace.Status.Conditions = append(namespace.Status.Conditions, namespaceCondition("Theirs"))
	if err := before.Patch(t.Context(), admin, namespace); err != nil {
		t.Fatal(err)
	}

	before = patch.Snapshot(stale)
	stale.Status.Conditions = append(stale.Status.Conditions, namespaceCondition("Ours"))
	if err := before.Patch(t.Context(), admin, stale); err != nil {
		t.Fatalf("the status was not written beside another's change: %v", err)
	}
	if got := conditionTypes(stale); !slices.Equal(got, []string{"Ours", "Theirs"}) || stale.Labels["by"] != "another" {
		t.Errorf("conditions %v and labels %v; want both changes", got, stale.Labels)
	}

	version := stale.ResourceVersion
	if err := patch.Snapshot(stale).Patch(t.Context(), admin, stale); err != nil {
		t.Fatal(err)
	}
	if err := admin.Status().Patch(t.Context(), stale, client.RawPatch("application/merge-patch+json", []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if stale.ResourceVersion != version {
		t.Errorf("an empty patch has written the object: version %s became %s", version, stale.ResourceVersion)
	}
}

func namespaceCondition(kind string) corev1.NamespaceCondition {
	return corev1.NamespaceCondition{Type: corev1.NamespaceConditionType(kind), Status: corev1.ConditionTrue}
}

func conditionTypes(namespace *corev1.Namespace) []string {
	var types []string
	for _, condition := range namespace.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	slices.Sort(types)
	return types
}
