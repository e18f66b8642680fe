package class

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

func TestDescribeClass_ShowsConflictsAndRetention(t *testing.T) {
	class := gen.Class("internal", gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28), gen.Default(), gen.Cooldown("1m"), stage.HourAgo)
	class.Status.Phase, class.Status.OfferingPools = ipamv1alpha1.ClassReady, 2
	own := stage.Ready(gen.Pool("office", gen.Backs("internal"), stage.HourAgo), "10.0.0.0/16", ipamv1alpha1.IPv4, 25, 17)
	own.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "65536", Allocated: "16384", Available: "49152"}
	s := stage.New(t)
	must.Do(t, describeClass(s.Session, class, []ipamv1alpha1.IPPool{*own}))
	stage.Golden(t, "class_show", s.Printed.String())

	conflict := gen.Class("second", gen.Default(), stage.HourAgo)
	conflict.Status.Phase = ipamv1alpha1.ClassError
	conflict.Status.Conditions = []metav1.Condition{{
		Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionFalse,
		Reason: string(ipamv1alpha1.ReasonDefaultConflict), Message: `class "internal" is the default of IPv4 already`,
	}}
	s = stage.New(t)
	must.Do(t, describeClass(s.Session, conflict, nil))
	stage.Golden(t, "class_show_conflict", s.Printed.String())

	retains := gen.Class("internal", gen.Lease("72h"), gen.OnRetained(ipamv1alpha1.RetainedReuse), stage.HourAgo)
	s = stage.New(t)
	must.Do(t, describeClass(s.Session, retains, nil))
	stage.Golden(t, "class_show_retains", s.Printed.String())
}
