package shards

import (
	"context"
	"fmt"
	"os"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// lends fails the test unless a tenant's shared pool serves a tenant of the other shard, and can be the parent of
// that tenant's pool.
func (s *scene) lends() {
	s.Helper()
	owner, guest := s.there, s.here
	pool := gen.Pool("lent", gen.CIDR("10.0.0.0/16"), gen.Visible(ipamv1alpha1.VisibilityShared),
		gen.Consumers{ipamv1alpha1.Consumer(guest.Path)})
	framework.Create(s, owner, pool)
	child := gen.Pool("own", gen.ChildOf("lent", 28))
	child.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: owner.Path}
	framework.Allocate(s, guest, child)

	claims := append(bind(s.T, guest, 2, gen.FromPoolIn(owner.Path, "lent")), bind(s.T, owner, 2, gen.FromPool("lent"))...)
	distinct(s.T, claims...)
	waitHeld(s.T, owner, pool, len(claims)+1)
	inside := gen.Claim("inside", gen.FromPool("own"), gen.Length(28))
	framework.Bind(s, guest, inside)
	if inside.Status.AllocatedCIDR != child.Status.AllocatedCIDR {
		s.Errorf("the claim from the child pool %s has %s", child.Status.AllocatedCIDR, inside.Status.AllocatedCIDR)
	}
}

// offer makes a class, and a pool of the platform with the same name behind it.
func offer(t *testing.T, platform *framework.Platform, name string) *ipamv1alpha1.IPPool {
	t.Helper()
	pool := gen.Pool(name, gen.CIDR(platform.CIDR(t)), gen.Backs(name), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	framework.Create(t, platform, gen.Class(name), pool)
	framework.WaitAllocated(t, platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	return pool
}

// bind makes count claims of 16 addresses, and waits until they are bound.
func bind(t *testing.T, tenant *framework.Tenant, count int, from gen.ClaimOption) []*ipamv1alpha1.IPClaim {
	t.Helper()
	claims := make([]*ipamv1alpha1.IPClaim, count)
	for i := range claims {
		claims[i] = gen.Claim("", from, gen.Length(28))
		claims[i].GenerateName = "claim-"
		framework.Create(t, tenant, claims[i])
	}
	framework.WaitBound(t, tenant, claims...)
	return claims
}

// distinct fails the test unless each claim has a block of its own. All claims have the same length.
func distinct(t *testing.T, claims ...*ipamv1alpha1.IPClaim) {
	t.Helper()
	holders := map[ipamv1alpha1.CIDR]string{}
	for _, claim := range claims {
		block := ipamv1alpha1.CIDR(claim.Status.AllocatedCIDR)
		if holder, taken := holders[block]; taken {
			t.Errorf("%s and %s both have %s", holder, claim.Name, block)
		}
		holders[block] = claim.Name
	}
}

// waitHeld waits until the status of a pool shows exactly that many blocks of 16 addresses as allocated.
func waitHeld(t *testing.T, c client.Reader, pool *ipamv1alpha1.IPPool, blocks int) {
	t.Helper()
	want := fmt.Sprint(blocks * 16)
	framework.WaitWhile(t, c, pool, fmt.Sprintf("there are not %s addresses taken", want), func(pool *ipamv1alpha1.IPPool) bool {
		return pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != want
	})
}

func TestMain(m *testing.M) { os.Exit(framework.MainOnShards(m)) }

// isHalfBlind fails the test if anything is freed that is held on the shard which the endpoint slice leaves out, or
// if anything is reported of that shard, before and after a start of the controller. kcp calls such a slice valid.
func (s *scene) isHalfBlind(held *ipamv1alpha1.IPClaim) {
	s.Helper()
	s.platform.WaitMetric(s, "ipam_endpoint_slice_partial ", "1")
	s.drops(s.here, &s.near)
	s.near = append(s.near, s.more(s.here, 2)...)
	s.platform.WaitSwept(s, 8)
	s.holds(held)
	if report, exit := s.platform.Verify(s); exit == 0 || len(report.Findings) > 0 {
		s.Errorf("verify exits with %d and finds %+v, want no answer", exit, report.Findings)
	}
	if err := s.platform.Probe(s.Context(), "/readyz"); err != nil {
		s.Errorf("the controller is not ready: %v", err)
	}
	s.platform.StopController(s)
	s.platform.StartController(s)
	s.platform.WaitSwept(s, 8)
	s.holds(held)
}

// narrow replaces the endpoint slice by a slice that a partition narrows to one shard. The other shard has to be away
// meanwhile: before it knows of the partition, it would enter its endpoint, and leave it there.
func (s *scene) narrow(shard string) {
	s.Helper()
	admin := framework.Admin(s, s.platform.Path)
	partition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "topology.kcp.io/v1alpha1", "kind": "Partition", "metadata": map[string]any{"name": shard},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"name": shard}}},
	}}
	framework.Create(s, admin, partition)
	s.annotate(admin, "true")
	slice := endpointSlice()
	framework.Delete(s, admin, slice)
	framework.WaitGone(s, admin, slice)
	slice = endpointSlice()
	slice.Spec.APIExport = apisv1alpha1.ExportBindingReference{Path: s.platform.Path, Name: slice.Name}
	slice.Spec.Partition = shard
	framework.Create(s, admin, slice)
	framework.WaitWhile(s, admin, slice, "it does not list one endpoint", func(slice *apisv1alpha1.APIExportEndpointSlice) bool {
		return !conditions.IsTrue(slice, apisv1alpha1.APIExportValid) || !conditions.IsTrue(slice, apisv1alpha1.PartitionValid) ||
			len(slice.Status.APIExportEndpoints) != 1
	})
}

// widen makes kcp create its own endpoint slice again, with the endpoints of all shards.
func (s *scene) widen() {
	s.Helper()
	s.annotate(framework.Admin(s, s.platform.Path), "")
	s.remake(2)
}

// remake deletes the endpoint slice, and waits until kcp has made a slice with that many endpoints.
func (s *scene) remake(endpoints int) {
	s.Helper()
	admin, slice := framework.Admin(s, s.platform.Path), endpointSlice()
	framework.Eventually(s, "the slice to be read", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKeyFromObject(slice), slice)
	})
	former := slice.UID
	framework.Delete(s, admin, slice)
	framework.WaitWhile(s, admin, endpointSlice(), fmt.Sprintf("it does not list %d endpoints", endpoints), func(slice *apisv1alpha1.APIExportEndpointSlice) bool {
		return slice.UID == former || len(slice.Status.APIExportEndpoints) != endpoints
	})
}

// annotate keeps kcp from making an endpoint slice for the export. If skip is empty, kcp makes one.
func (s *scene) annotate(admin client.Client, skip string) {
	s.Helper()
	export := &apisv1alpha2.APIExport{ObjectMeta: metav1.ObjectMeta{Name: workspaces.ExportName}}
	framework.Change(s, admin, export, func(export *apisv1alpha2.APIExport) {
		delete(export.Annotations, apisv1alpha2.APIExportEndpointSliceSkipAnnotation)
		if skip != "" {
			metav1.SetMetaDataAnnotation(&export.ObjectMeta, apisv1alpha2.APIExportEndpointSliceSkipAnnotation, skip)
		}
	})
}

func endpointSlice() *apisv1alpha1.APIExportEndpointSlice {
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	slice.Name = workspaces.ExportName
	return slice
}
