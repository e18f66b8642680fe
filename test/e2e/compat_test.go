package e2e

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
)

// Manifests as they were written before there were classes: claims that name a pool, or
// select one by labels, with their family and length.
const olderPools = `
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPPool
metadata:
  name: nodes
  labels:
    selection: nodes
spec:
  cidr: 10.142.0.0/20
  ipFamily: IPv4
  visibility: consumer
  allocation:
    minPrefixLength: 24
    maxPrefixLength: 28
    strategy: FirstFit
---
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPPool
metadata:
  name: hosts
  labels:
    selection: hosts
    zone: north
spec:
  cidr: 2001:db8::/126
  ipFamily: IPv6
  visibility: consumer
  allocation:
    minPrefixLength: 128
    maxPrefixLength: 128
    strategy: BestFit
---
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPPool
metadata:
  name: rack
spec:
  parentPoolRef:
    name: nodes
  prefixLength: 24
  visibility: consumer
  allocation:
    strategy: FirstFit
`

const olderClaims = `
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata:
  name: by-name
  namespace: default
spec:
  ipFamily: IPv4
  prefixLength: 26
  poolRef:
    name: nodes
  reclaimPolicy: Delete
---
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata:
  name: by-label
  namespace: default
spec:
  ipFamily: IPv4
  prefixLength: 24
  poolSelector:
    matchLabels:
      selection: nodes
---
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata:
  name: by-expression
  namespace: default
spec:
  ipFamily: IPv6
  prefixLength: 128
  poolSelector:
    matchLabels:
      selection: hosts
    matchExpressions:
    - key: zone
      operator: In
      values: [north]
---
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata:
  name: of-child
  namespace: default
spec:
  ipFamily: IPv4
  prefixLength: 32
  poolRef:
    name: rack
`

// The older manifests work as they stand: every field is known, none is changed, and each
// claim is bound from the pool it means.
func TestCompat_OlderManifests(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	strict := client.WithFieldValidation(tenant, metav1.FieldValidationStrict)
	pools, claims := manifests(t, olderPools), manifests(t, olderClaims)
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

// manifests reads YAML documents.
func manifests(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(strings.TrimSpace(text))), 4096)
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
