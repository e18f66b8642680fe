package pool

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A pool whose classes differ in uniqueWithin says so as long as they do.
func TestReportDiffering(t *testing.T) {
	clusters := testbed.Clusters{"": testbed.NewWorkspace(t, gen.Class("flat"), gen.Class("vrf", gen.UniqueWithin("network")))}
	known := directory.New(directory.Workspace{Cluster: "platform"})
	p := &pass{Reconciler: &Reconciler{Options: Options{Catalog: &catalog.Catalog{Clusters: clusters, Directory: known}}}, pool: gen.Pool("p")}
	p.cluster = testbed.NewWorkspace(t)
	for _, step := range []struct {
		classes []string
		differ  bool
	}{{[]string{"flat"}, false}, {[]string{"flat", "vrf"}, true}, {[]string{"vrf", "flat"}, true}, {[]string{"vrf", "unheard"}, false}} {
		p.pool.Spec.ClassNames = step.classes
		if err := p.reportDiffering(t.Context()); err != nil {
			t.Fatal(err)
		}
		said := meta.FindStatusCondition(p.pool.Status.Conditions, ipamv1alpha1.ConditionClassesDiffer)
		if (said != nil) != step.differ || said != nil && (said.Reason != string(ipamv1alpha1.ReasonUniqueWithinDiffers) || !strings.Contains(said.Message, `class "vrf" within network`)) {
			t.Errorf("of classes %v the pool says %+v; want that they differ: %t", step.classes, said, step.differ)
		}
	}
}
