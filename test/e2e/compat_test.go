package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// Manifests as they were written before there were classes name a pool, or select one by labels. They work as they stand:
// every field is known, none is changed, and each claim is bound from the pool it means.
func TestCompat_OlderManifests(t *testing.T) {
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
