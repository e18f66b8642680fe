package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/kcp-ipam/ipam/test/must"
)

const deployDir = "../../config/deploy"

// overlaid returns the objects of an overlay, as kustomize makes them.
func overlaid(t *testing.T, overlay string) []runtime.Object {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(deployDir, "overlays", overlay))
	if err != nil {
		t.Fatal(err)
	}
	manifest := must.Get(built.AsYaml())(t)
	scheme := runtime.NewScheme()
	must.Do(t, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := strict.Decode(document, nil, nil)
		if bytes.Contains(document, []byte("apiVersion: cert-manager.io/")) { // no module here has its types
			object, err = decodeUntyped(document)
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// decodeUntyped decodes an object of any kind.
func decodeUntyped(document []byte) (runtime.Object, error) {
	object := &unstructured.Unstructured{}
	return object, yaml.Unmarshal(document, &object.Object)
}

// all returns the objects of type T.
func all[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, object := range objects {
		if of, ok := object.(T); ok {
			found = append(found, of)
		}
	}
	return found
}

// one returns the only object of type T.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	found := all[T](objects)
	if len(found) != 1 {
		t.Fatalf("there are %d of %T", len(found), *new(T))
	}
	return found[0]
}

// overlays are the names of the overlays that run the controller.
var overlays = []string{"dev", "ha", "standalone"}

// workload is a StatefulSet or a Deployment.
type workload struct {
	replicas int32
	selector *metav1.LabelSelector
	pod      corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

// workloadOf returns the only workload of an overlay.
func workloadOf(t *testing.T, overlay string) workload {
	t.Helper()
	objects := overlaid(t, overlay)
	var found []workload
	for _, d := range all[*appsv1.Deployment](objects) {
		found = append(found, workload{*d.Spec.Replicas, d.Spec.Selector, d.Spec.Template, nil})
	}
	for _, s := range all[*appsv1.StatefulSet](objects) {
		found = append(found, workload{*s.Spec.Replicas, s.Spec.Selector, s.Spec.Template, s.Spec.VolumeClaimTemplates})
	}
	if len(found) != 1 {
		t.Fatalf("overlay %s has %d workloads, want 1", overlay, len(found))
	}
	return found[0]
}

// parsed returns the options with which the controller in a pod is started.
func parsed(t *testing.T, w workload) *options {
	t.Helper()
	opts := given(t, w.pod.Spec.Containers[0].Args...)
	must.Do(t, opts.validate())
	return opts
}

func TestDeploy_UsesOnlyFlagsOfTheCommand(t *testing.T) {
	opts := parsed(t, workloadOf(t, "dev"))
	if len(opts.etcdServers) > 0 || opts.election.on {
		t.Errorf("dev: etcd is %v, leader election %t", opts.etcdServers, opts.election.on)
	}
	opts = parsed(t, workloadOf(t, "ha"))
	if len(opts.etcdServers) != 3 || opts.etcdCAFile == "" || opts.etcdCertFile == "" || !opts.election.on {
		t.Errorf("ha: etcd is %v, CA %q, certificate %q, leader election %t",
			opts.etcdServers, opts.etcdCAFile, opts.etcdCertFile, opts.election.on)
	}
	if opts.metricsClientCAFile == "" {
		t.Error("ha: anybody may read the metrics")
	}
	for _, server := range opts.etcdServers {
		if !strings.HasPrefix(server, "https://") {
			t.Errorf("ha: %s has no TLS", server)
		}
	}
}

// The files that the flags name are on volumes of the pod, since its root is read-only.
func TestDeploy_FilesAreMounted(t *testing.T) {
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			w := workloadOf(t, name)
			var volumes []string
			for _, v := range w.pod.Spec.Volumes {
				volumes = append(volumes, v.Name)
			}
			for _, c := range w.claims {
				volumes = append(volumes, c.Name)
			}
			container := w.pod.Spec.Containers[0]
			for _, m := range container.VolumeMounts {
				if !slices.Contains(volumes, m.Name) {
					t.Errorf("there is no volume %s", m.Name)
				}
			}
			opts := parsed(t, w)
			files := []string{
				opts.kubeconfig, opts.etcdCAFile, opts.etcdCertFile, opts.etcdKeyFile, strings.TrimPrefix(opts.etcdListen, "unix://"),
				opts.metricsCertFile, opts.metricsKeyFile, opts.metricsClientCAFile,
			}
			if len(opts.etcdServers) == 0 {
				files = append(files, opts.etcdDataDir)
			}
			for _, file := range files {
				mounted := slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool {
					return strings.HasPrefix(file, m.MountPath+"/")
				})
				if file != "" && !mounted {
					t.Errorf("%s is on no volume", file)
				}
			}
		})
	}
}

func TestDeploy_PodsAreRestricted(t *testing.T) {
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			w := workloadOf(t, name)
			spec := w.pod.Spec
			if c := spec.SecurityContext; !*c.RunAsNonRoot || c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
				t.Errorf("the pod has %v", c)
			}
			if needed := parsed(t, w).standalone; *spec.AutomountServiceAccountToken != needed {
				t.Errorf("the pod has a token of the cluster: %t; it needs one: %t", *spec.AutomountServiceAccountToken, needed)
			}
			container := spec.Containers[0]
			c := container.SecurityContext
			if !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !slices.Equal(c.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("the container has %v", c)
			}
			if container.LivenessProbe == nil || container.ReadinessProbe == nil || container.StartupProbe == nil {
				t.Error("a probe is missing")
			}
			if container.Resources.Requests.Cpu().IsZero() || container.Resources.Limits.Memory().IsZero() {
				t.Errorf("its resources are %v", container.Resources)
			}
		})
	}
}

func TestDeploy_SelectorsMatchThePods(t *testing.T) {
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			objects, w := overlaid(t, name), workloadOf(t, name)
			selectors := []*metav1.LabelSelector{
				w.selector,
				&one[*networkingv1.NetworkPolicy](t, objects).Spec.PodSelector,
			}
			for _, service := range all[*corev1.Service](objects) {
				selectors = append(selectors, &metav1.LabelSelector{MatchLabels: service.Spec.Selector})
			}
			if name == "ha" {
				budget := one[*policyv1.PodDisruptionBudget](t, objects)
				if selectors = append(selectors, budget.Spec.Selector); budget.Spec.MaxUnavailable.IntValue() >= int(w.replicas) {
					t.Errorf("all %d replicas may be away", w.replicas)
				}
				for _, spread := range w.pod.Spec.TopologySpreadConstraints {
					selectors = append(selectors, spread.LabelSelector)
				}
			}
			for i, s := range selectors {
				selector, err := metav1.LabelSelectorAsSelector(s)
				if err != nil || selector.Empty() || !selector.Matches(labels.Set(w.pod.Labels)) {
					t.Errorf("selector %d, %v, does not match %v: %v", i, s, w.pod.Labels, err)
				}
			}
		})
	}
}

func TestDeploy_RunsOneReplicaWithAnEmbeddedEtcd(t *testing.T) {
	for _, w := range []workload{workloadOf(t, "dev"), workloadOf(t, "standalone")} {
		if w.replicas != 1 || len(w.claims) != 1 {
			t.Errorf("an embedded etcd has %d replicas and %d volumes", w.replicas, len(w.claims))
		}
	}
	if w := workloadOf(t, "ha"); w.replicas != 3 || len(w.pod.Spec.TopologySpreadConstraints) == 0 {
		t.Errorf("there are %d replicas, spread by %v", w.replicas, w.pod.Spec.TopologySpreadConstraints)
	}
}

// The overlay for a cluster without kcp has the CRDs, and grants the rights to the account of the pod.
func TestDeploy_StandaloneBringsTheAPI(t *testing.T) {
	objects, pod := overlaid(t, "standalone"), workloadOf(t, "standalone").pod.Spec
	account, kinds, granted := one[*corev1.ServiceAccount](t, objects), 0, 0
	for _, object := range objects {
		switch object := object.(type) {
		case *apiextensionsv1.CustomResourceDefinition:
			kinds++
		case *rbacv1.ClusterRoleBinding:
			if s := object.Subjects; len(s) == 1 && s[0].Name == account.Name && s[0].Namespace == account.Namespace {
				granted++
			}
		}
	}
	if kinds != 4 || granted != 1 || pod.ServiceAccountName != account.Name {
		t.Errorf("there are %d kinds and %d grants to %s/%s; the pod is %s", kinds, granted, account.Namespace, account.Name, pod.ServiceAccountName)
	}
}

// tools/image builds the image that the overlays name, and the image runs under the restrictions of the pods.
func TestDeploy_NamesTheImageThatIsBuilt(t *testing.T) {
	for _, name := range overlays {
		pod := workloadOf(t, name).pod.Spec
		if c := pod.Containers[0]; c.Image != "ipam-controller:latest" || c.ImagePullPolicy != corev1.PullIfNotPresent {
			t.Errorf("%s: the image is %s, pulled %s", name, c.Image, c.ImagePullPolicy)
		}
		text, err := os.ReadFile("../../tools/image/build.go")
		user := fmt.Sprintf("const user = %q", fmt.Sprintf("%d:%d", *pod.SecurityContext.RunAsUser, *pod.SecurityContext.RunAsGroup))
		if err != nil || !bytes.Contains(text, []byte(user)) {
			t.Errorf("%s: the image does not say %s: %v", name, user, err)
		}
	}
}
