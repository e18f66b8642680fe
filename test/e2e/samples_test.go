package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

// kubectl applies every sample for users with the usual roles, and each sample becomes Ready. The name of its file
// says where it goes: platform.yaml to the platform, team-a.yaml to root:team-a.
func TestSamples(t *testing.T) {
	t.Parallel()
	root := must.Get(local.ModuleRoot())(t)
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	s := samples{
		kubectl: framework.Kubectl(t),
		people: map[string]framework.CLI{
			"platform": platform.CLI(t, "ipam-class-admin", "ipam-shared-pool-admin"),
			"team-a":   platform.TenantAt(t, "root:team-a").CLI(t),
			"team-b":   platform.TenantAt(t, "root:team-b").CLI(t),
		},
	}
	all := filepath.Join(root, "config", "samples")
	// All other samples need these two.
	s.ready(t, map[string]string{"platform": filepath.Join(all, "platform"), "team-a": filepath.Join(all, "tenant")})
	topics := must.Get(filepath.Glob(filepath.Join(all, "*")))(t)
	for _, topic := range topics {
		name := filepath.Base(topic)
		if name == "platform" || name == "tenant" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.ready(t, byPlace(t, topic))
		})
	}
}

// byPlace returns the samples of a folder by the place to which they go.
func byPlace(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no samples: %v", folder, err)
	}
	places := map[string]string{}
	for _, file := range files {
		places[strings.TrimSuffix(filepath.Base(file), ".yaml")] = file
	}
	return places
}

// samples applies samples as users with the usual roles.
type samples struct {
	kubectl string
	people  map[string]framework.CLI // the users, by place
}

// ready applies the file for each place, and waits until all its objects are Ready.
func (s samples) ready(t *testing.T, files map[string]string) {
	t.Helper()
	for _, verb := range [][]string{{"apply"}, {"wait", "--for=condition=Ready", "--timeout=60s"}} {
		for place, file := range files {
			person, ok := s.people[place]
			if !ok {
				t.Fatalf("%s is for a place that this test has not", file)
			}
			if did := person.RunIn(t, s.kubectl, append(verb, "-f", file)...); did.Code != 0 {
				t.Fatalf("kubectl %s -f %s ended with %d\n%s%s", strings.Join(verb, " "), file, did.Code, did.Out, did.Err)
			}
		}
	}
}

// Manifests from before there were classes name a pool, or select one by labels. They still work: every field is
// known, none is changed, and each claim is bound from the pool that it means.
func TestCompat_BindsClaimsOfOlderManifests(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	strict := client.WithFieldValidation(tenant, metav1.FieldValidationStrict)
	pools, claims := manifests(t, "testdata/older/pools.yaml"), manifests(t, "testdata/older/claims.yaml")
	for _, manifest := range append(pools, claims...) {
		written := manifest.DeepCopy()
		framework.Create(t, strict, manifest)
		if diff := cmp.Diff(written.Object["spec"], manifest.Object["spec"]); diff != "" {
			t.Errorf("%s %s is stored otherwise (-written +stored):\n%s", manifest.GetKind(), manifest.GetName(), diff)
		}
	}
	for _, row := range []struct {
		claim, pool string
		length      int
		cidr        ipamv1alpha1.CIDR
		family      ipamv1alpha1.IPFamily
	}{
		{"by-name", "nodes", 26, "10.142.0.0/20", ipamv1alpha1.IPv4},
		{"by-label", "nodes", 24, "10.142.0.0/20", ipamv1alpha1.IPv4},
		{"by-expression", "hosts", 128, "2001:db8::/126", ipamv1alpha1.IPv6},
		{"of-child", "rack", 32, "10.142.0.0/20", ipamv1alpha1.IPv4},
	} {
		claim := &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: row.claim}}
		framework.WaitBound(t, tenant, claim)
		block := blockOf(t, claim)
		disjointIn(t, row.cidr, block)
		if got := claim.Status; got.PoolRef.Name != row.pool || block.Bits() != row.length || got.IPFamily != row.family || got.ClassName != "" {
			t.Errorf("the status of claim %s is %+v; want a /%d of pool %s, by no class", row.claim, got, row.length, row.pool)
		}
		showsSuccess(t, claim.Status.Conditions)
		record := recordOf(t, tenant, claim)
		if record.Status.AllocatedCIDR != block.String() || record.Spec.ReclaimPolicy != ipamv1alpha1.ReclaimDelete {
			t.Errorf("the record of claim %s is %+v", row.claim, record)
		}
	}
}

// manifests reads the YAML documents of a file.
func manifests(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(must.Get(os.ReadFile(file))(t)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}
