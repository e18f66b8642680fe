package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

const namespace = "ipam-system"

// A real API server accepts all that the chart renders, and no claim is lost over the life and the end of a release.
func TestChart_KeepsClaimsOnKubernetes(t *testing.T) {
	t.Parallel()
	cluster := must.Get(local.NewKubernetes(t.Context(), t.TempDir()))(t)
	must.Ends(t, cluster.Stop)
	must.Do(t, cluster.Start(t.Context()))
	access := must.Get(cluster.Admin())(t)
	c := must.Get(workspaces.NewClient(access))(t)
	must.Do(t, workspaces.Apply(t.Context(), access, os.DirFS("testdata")))
	must.Do(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	t.Run("values", func(t *testing.T) { values(t, c) })
	t.Run("a complete overlay", func(t *testing.T) { complete(t, c) })
	t.Run("a release", func(t *testing.T) { release(t, c, cluster.Kubeconfig()) })
}

// values renders each mode with each setting that counts in it, and sends the changed objects to the API server as a
// dry run.
func values(t *testing.T, c client.Client) {
	for mode := range overlays {
		initial := must.Get(rendered(t, namespace, map[string]any{"mode": mode}))(t)
		for name, object := range initial {
			if err := dryRun(t, c, object); err != nil {
				t.Errorf("%s: %s: %v", mode, name, err)
			}
		}
		for _, setting := range inMode(mode) {
			got, err := rendered(t, namespace, setting.in(mode))
			if err != nil {
				t.Errorf("%s, %s: %v", mode, setting.name, err)
				continue
			}
			if equality.Semantic.DeepEqual(got, initial) || !strings.Contains(fmt.Sprint(got), setting.says) {
				t.Errorf("%s: no object has %q of the value %s", mode, setting.says, setting.name)
			}
			for name, object := range got {
				if equality.Semantic.DeepEqual(object, initial[name]) {
					continue
				}
				if err := dryRun(t, c, object); err != nil {
					t.Errorf("%s, %s: %s: %v", mode, setting.name, name, err)
				}
			}
		}
	}
}

// dryRun sends the CREATE of an object, which the API server checks and does not store.
func dryRun(t *testing.T, c client.Client, object map[string]any) error {
	t.Helper()
	return c.Create(t.Context(), &unstructured.Unstructured{Object: object}, client.DryRunAll, client.FieldValidation("Strict"))
}

// release installs the chart, upgrades it, is refused another mode, uninstalls it and installs it again.
func release(t *testing.T, c client.Client, kubeconfig string) {
	of := []string{"--kubeconfig", kubeconfig, "--namespace", namespace}
	with := func(command string, values map[string]any) error {
		_, err := helm(t, append([]string{command, "ipam", archive, "-f", valuesFile(t, values)}, of...)...)
		return err
	}
	standalone := map[string]any{"mode": "standalone"}
	must.Do(t, with("install", standalone))
	claim := gen.Claim("kept", gen.OfClass("any"), gen.Length(28))
	claim.Namespace = metav1.NamespaceDefault
	must.Do(t, c.Create(t.Context(), claim))

	must.Do(t, with("upgrade", map[string]any{
		"mode": "standalone", "args": []any{"--verbosity=1"}, "monitoring": map[string]any{"enabled": true},
	}))
	running := &appsv1.StatefulSet{}
	must.Do(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "ipam-controller"}, running))
	if args := strings.Join(running.Spec.Template.Spec.Containers[0].Args, " "); !strings.Contains(args, "--verbosity=1") {
		t.Errorf("after the upgrade the controller runs with %s", args)
	}
	// The ledger is in the volume.
	kept := running.Spec.PersistentVolumeClaimRetentionPolicy
	if kept == nil || kept.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
		t.Errorf("the volume goes with the StatefulSet: %v", kept)
	}

	if err := with("upgrade", map[string]any{"mode": "embedded"}); err == nil || !strings.Contains(err.Error(), "--set mode=standalone") {
		t.Errorf("upgrade to another mode: %v; want a refusal that names the mode", err)
	}
	unchanged := &appsv1.StatefulSet{}
	must.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(running), unchanged))
	if unchanged.Generation != running.Generation {
		t.Error("the refused upgrade has changed the StatefulSet")
	}

	if _, err := helm(t, append([]string{"uninstall", "ipam", "--wait"}, of...)...); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(running), unchanged); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("after helm uninstall the StatefulSet is there: %v", err)
	}
	stays(t, c, claim)
	must.Do(t, with("install", standalone))
	stays(t, c, claim)
}

// stays fails the test unless the claim still exists unchanged.
func stays(t *testing.T, c client.Client, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	found := &ipamv1alpha1.IPClaim{}
	must.Do(t, c.Get(t.Context(), client.ObjectKeyFromObject(claim), found))
	if found.UID != claim.UID || found.DeletionTimestamp != nil {
		t.Errorf("the claim is another one, or goes: %v", found.ObjectMeta)
	}
}

// Helm's own linter reports nothing against the chart.
func TestChart_PassesHelmLint(t *testing.T) {
	t.Parallel()
	for mode := range overlays {
		if _, err := helm(t, "lint", archive, "--strict", "--namespace", namespace, "--set", "mode="+mode); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
