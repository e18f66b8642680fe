package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A command that is advised names the namespace: in the current one it would be about another claim.
func TestAdvice_NamesTheNamespace(t *testing.T) {
	in := func(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
		claim.Namespace = "shop"
		return claim
	}
	waits := in(gen.Claim("web", gen.Address("10.0.0.0/28")))
	holds := in(bound(gen.Claim("web", gen.Address("10.0.0.0/28")), "10.0.0.16/28", ipamv1alpha1.PoolRef{Name: "p"}))
	s := newStage(t)
	r := &request{session: s.session}
	r.addFlags(&cobra.Command{})
	r.wait = 0
	missing := &failure{reason: ipamv1alpha1.ReasonClassNotFound, err: fmt.Errorf("no class")}
	c := estateServer(t, interceptor.Funcs{})
	for name, said := range map[string]string{
		"another claim that waits":    hintOf(differs(&ipamclient.ConflictError{Claim: waits})),
		"another claim with a block":  hintOf(differs(&ipamclient.ConflictError{Claim: holds})),
		"to be replaced, with block":  hintOf(r.replaceUnbound(t.Context(), c, holds, waits)),
		"a plan's claim that waits":   differentClaim(waits, waits),
		"a plan's claim with a block": differentClaim(waits, holds),
		"a block that is held":        hintOf(held("10.0.0.16/28", client.ObjectKeyFromObject(holds))),
		"a claim that stays":          hintOf(r.advised(t.Context(), c, waits, missing)),
		"a claim without an answer":   hintOf(answerOf(waits).err(waits)),
	} {
		if advised := strings.Count(said, "kubectl ipam "); strings.Count(said, " web -n shop") == 0 || strings.Count(said, " web -n shop") < strings.Count(said, " web") {
			t.Errorf("%s: of %d commands not all name the namespace: %s", name, advised, said)
		}
	}
	if err := r.show(waits); err != nil || !strings.Contains(s.errs.String(), "kubectl ipam claim show web -n shop") {
		t.Errorf("a claim that is not waited for: %v; it says %q", err, s.errs)
	}
	pool := gen.Pool("lab")
	if said := hintOf(answerOf(pool).err(pool)); strings.Contains(said, " -n ") {
		t.Errorf("a pool has no namespace: %s", said)
	}
}
