package e2e

import (
	"context"
	"fmt"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// An annotation that kcp cannot convert to another version, on bindings to any export, stops nobody: not the controller that runs,
// and not the next one.
func TestBlind_AnAnnotationThatKCPCannotConvert(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	odd, even := platform.TenantAt(t, "root:"+name), platform.Tenant(t)
	admin := framework.Admin(t, odd.Path)
	bindings := &apisv1alpha2.APIBindingList{}
	must.Do(t, admin.List(t.Context(), bindings))
	if len(bindings.Items) < 2 {
		t.Fatalf("the workspace has %d bindings, want those of others beside that of the platform", len(bindings.Items))
	}
	annotate := func(value string) {
		t.Helper()
		for i := range bindings.Items {
			patch := fmt.Sprintf(`{"metadata":{"annotations":{"apis.v1alpha2.kcp.io/v1alpha1-permission-claims":%s}}}`, value)
			if err := admin.Patch(context.WithoutCancel(t.Context()), &bindings.Items[i], client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
				t.Errorf("Patch: %v", err)
			}
		}
	}
	// Other tests of this kcp read bindings, too.
	t.Cleanup(func() { annotate("null") })
	annotate(`"x"`)
	serves := func(when string, tenants ...*framework.Tenant) {
		t.Helper()
		for _, tenant := range tenants {
			claim := gen.Claim(when, gen.OfClass(name), gen.Length(28))
			framework.Bind(t, tenant, claim)
		}
	}
	serves("running", odd, even, platform.Tenant(t))
	platform.KillController(t)
	platform.StartController(t)
	serves("restarted", odd, even, platform.Tenant(t))
}
