package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/workspaces"
)

// isHalfBlind fails the test unless nothing is freed that is held on the shard that the endpoint slice leaves out, and nothing is
// said of it, before and after a start of the controller. kcp finds such a slice valid.
func (s *scene) isHalfBlind(held *ipamv1alpha1.IPClaim) {
	s.Helper()
	framework.Eventually(s, "the controller to see the slice", func(context.Context) error {
		if got := metric(s.platform.Metrics(s), "ipam_endpoint_slice_partial "); got != "1" {
			return fmt.Errorf("ipam_endpoint_slice_partial = %q, want 1", got)
		}
		return nil
	})
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

// narrow replaces the endpoint slice by one that a partition narrows to a shard. The other shard has to be
// away meanwhile: it would enter its endpoint before it knows of the partition, and leave it.
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
	framework.WaitFor(s, admin, slice, func(slice *apisv1alpha1.APIExportEndpointSlice) error {
		if !conditions.IsTrue(slice, apisv1alpha1.APIExportValid) || !conditions.IsTrue(slice, apisv1alpha1.PartitionValid) ||
			len(slice.Status.APIExportEndpoints) != 1 {
			return errors.New("it does not list one endpoint")
		}
		return nil
	})
}

// widen has kcp make its own endpoint slice again, with the endpoints of all shards.
func (s *scene) widen() {
	s.Helper()
	s.annotate(framework.Admin(s, s.platform.Path), "")
	s.remake(2)
}

// remake deletes the endpoint slice, and waits until kcp has made one with so many endpoints.
func (s *scene) remake(endpoints int) {
	s.Helper()
	admin, slice := framework.Admin(s, s.platform.Path), endpointSlice()
	framework.Eventually(s, "the slice to be read", func(ctx context.Context) error {
		return admin.Get(ctx, client.ObjectKeyFromObject(slice), slice)
	})
	former := slice.UID
	framework.Delete(s, admin, slice)
	framework.WaitFor(s, admin, endpointSlice(), func(slice *apisv1alpha1.APIExportEndpointSlice) error {
		if slice.UID == former || len(slice.Status.APIExportEndpoints) != endpoints {
			return fmt.Errorf("it does not list %d endpoints", endpoints)
		}
		return nil
	})
}

// annotate has kcp make no endpoint slice for the export, or make one if skip is empty.
func (s *scene) annotate(admin client.Client, skip string) {
	s.Helper()
	framework.Eventually(s, "the export to be annotated", func(ctx context.Context) error {
		export := &apisv1alpha2.APIExport{}
		if err := admin.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, export); err != nil {
			return err
		}
		if export.Annotations == nil {
			export.Annotations = map[string]string{}
		}
		export.Annotations[apisv1alpha2.APIExportEndpointSliceSkipAnnotation] = skip
		if skip == "" {
			delete(export.Annotations, apisv1alpha2.APIExportEndpointSliceSkipAnnotation)
		}
		return admin.Update(ctx, export)
	})
}

func endpointSlice() *apisv1alpha1.APIExportEndpointSlice {
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	slice.Name = workspaces.ExportName
	return slice
}

// metric is the value of the first line of a metrics text that begins so.
func metric(text, begin string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if value, ok := strings.CutPrefix(line, begin); ok {
			return value
		}
	}
	return fmt.Sprintf("none of %s", begin)
}
