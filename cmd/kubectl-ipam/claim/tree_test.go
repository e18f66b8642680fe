package claim

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A claim is drawn with all that it depends on, and objects that the caller cannot read are named.
func TestClaimTree(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab", gen.CIDR("10.8.0.0/16")), "10.8.0.0/16", ipamv1alpha1.IPv4, 25, 17)
	east := stage.Ready(gen.Pool("east", gen.ChildOf("lab", 20)), "10.8.16.0/20", ipamv1alpha1.IPv4, 50, 21)
	self := gen.Pool("self", gen.ChildOf("self", 20))
	class := gen.Class("internal", gen.Lengths{Min: 24, Max: 28})
	class.Status.Phase = ipamv1alpha1.ClassReady
	class.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	owned := gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Service", Namespace: "default", Name: "web"})

	bound := stage.Bound(gen.Claim("web", gen.FromPool("east"), owned), "10.8.16.0/28", ipamv1alpha1.PoolRef{Name: "east"})
	bound.Status.Conditions = append(bound.Status.Conditions, metav1.Condition{Type: ipamv1alpha1.ConditionConsumerGone, Status: metav1.ConditionTrue, Message: "Service default/web is gone"})
	platform := stage.Bound(gen.Claim("app", gen.OfClass("internal")), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	waits := stage.Waiting(gen.Claim("batch", gen.OfClass("secret")), ipamv1alpha1.ReasonClassNotFound, `there is no class "secret" here`)
	looped := stage.Waiting(gen.Claim("loop", gen.FromPool("self")), ipamv1alpha1.ReasonPoolNotFound, "pool self is not ready")

	c := stage.Server(t, interceptor.Funcs{}, lab, east, self, class, gen.Allocation("web", "east", "10.8.16.0/28"), kept("batch", 0))
	for _, claim := range []*ipamv1alpha1.IPClaim{bound, platform, waits, looped} {
		s := stage.New(t)
		root, err := treeOf(t.Context(), s.Session, client.Client(c), claim)
		if err != nil {
			t.Fatalf("treeOf: %v", err)
		}
		if err := drawTree(s.Session, root, &output.Report{}); err != nil {
			t.Fatalf("drawTree: %v", err)
		}
		if claim == bound {
			if err := drawTree(s.Session, root, &output.Report{Format: output.YAML}); err != nil {
				t.Fatalf("drawTree: %v", err)
			}
		}
		stage.Golden(t, "claim_tree_"+claim.Name, s.Printed.String())
	}
}
