package e2e

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A tenant's pool with addresses that the platform hands out to the tenant as well says so, as long as that is so.
func TestOverlap_IsSaidWhileThePlatformHandsOutTheSame(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	tenant := cli{s.tenant.CLI(t, "ipam-pool-admin"), t}
	created := tenant.run("pool", "create", "own", "--cidr", string(s.cidr), "--class", s.name).ends(0)
	shows(t, created.Err, "pool own is ready", "warning: "+string(s.cidr)+" overlaps addresses that the platform hands out by class \""+s.name+"\"")
	shows(t, tenant.run("address", "show", string(s.cidr)).Err, "warning: pool own: ")
	shows(t, tenant.ok("pool", "show", "own"), "Warning:", "CIDR of its own")

	own := gen.Pool("own")
	over := func() {
		framework.WaitFor(t, s.tenant, own, func(own *ipamv1alpha1.IPPool) error {
			if meta.FindStatusCondition(own.Status.Conditions, ipamv1alpha1.ConditionOverlapping) != nil {
				return errors.New("it still says that it overlaps")
			}
			return nil
		})
	}
	again := func() {
		framework.WaitCondition(t, s.tenant, own, ipamv1alpha1.ConditionOverlapping, ipamv1alpha1.ReasonForeignSpace)
	}
	s.changePool(func(pool *ipamv1alpha1.IPPoolSpec) { pool.ClassNames = nil })
	over()
	s.changePool(func(pool *ipamv1alpha1.IPPoolSpec) { pool.ClassNames = []string{s.name} })
	again()
	s.changeClass(func(class *ipamv1alpha1.IPClassSpec) { class.Consumers = []ipamv1alpha1.Consumer{"root:nobody"} })
	over()
}
