package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The webhook is called before the server checks a name. A claim of a name that no object may have
// takes nothing: the ledger would keep the name, however long it is, and nobody could ask a server
// whether there is a claim of it.
func TestCreate_FailingByName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(part(s.cidr, 28))
	for what, metadata := range map[string]string{
		"a name with a slash":            `"name": "a/b"`,
		"a name with a percent sign":     `"name": "a%2fb"`,
		"a name of two dots":             `"name": ".."`,
		"a name of capitals":             `"name": "WEB"`,
		"a name with a line break":       `"name": "web\nweb"`,
		"a name of 254 bytes":            fmt.Sprintf(`"name": %q`, strings.Repeat("x", 254)),
		"a name of a megabyte":           fmt.Sprintf(`"name": %q`, strings.Repeat("x", 1<<20)),
		"a generated name with a slash":  `"generateName": "a/b-"`,
		"a generated name with capitals": `"generateName": "WEB-"`,
	} {
		body := fmt.Sprintf(`{"apiVersion": "VERSION", "kind": "IPClaim", "metadata": {%s}, "spec": SPEC}`, metadata)
		err := newForger(t, "the tenant", s.tenant.Config()).send(attack{body: body}, gen.Claim("any", gen.OfClass(s.name), gen.Length(28)))
		if !apierrors.IsInvalid(err) {
			t.Errorf("CREATE of %s: %v; want Invalid", what, err)
		}
		// The pool has room for one block.
		claim := gen.Claim("web", gen.OfClass(s.name), gen.Length(28))
		must.Do(t, s.tenant.Create(t.Context(), claim, client.DryRunAll))
		if claim.Status.Phase == ipamv1alpha1.ClaimPending {
			t.Fatalf("%s took the block of the pool: a claim would be answered with %+v", what, claim.Status.Conditions)
		}
	}
	framework.WaitBound(t, s.tenant, s.holds("web", gen.Length(28)))
}
