package request

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A command that is advised names the namespace: in the current one it would be about another claim.
func TestAdvice_NamesTheNamespace(t *testing.T) {
	waits, holds := gen.Claim("web"), stage.Bound(gen.Claim("web"), "10.0.0.16/28", ipamv1alpha1.PoolRef{Name: "p"})
	waits.Namespace, holds.Namespace = "shop", "shop"
	s := stage.New(t)
	r := &Command{Session: s.Session}
	r.AddFlags(&cobra.Command{})
	r.wait = 0
	missing := &exit.Failure{Reason: ipamv1alpha1.ReasonClassNotFound, Err: fmt.Errorf("no class")}
	c := stage.Server(t, interceptor.Funcs{})
	for name, said := range map[string]string{
		"another claim that waits":   instead(waits),
		"another claim with a block": instead(holds),
		"to be replaced, with block": exit.HintOf(deleteUnbound(t.Context(), c, holds)),
		"a claim that stays":         exit.HintOf(r.advised(t.Context(), c, waits, missing)),
		"a claim without an answer":  exit.HintOf(facts.AnswerOf(waits).Err(waits)),
	} {
		if named := strings.Count(said, " web -n shop"); named == 0 || named < strings.Count(said, " web") {
			t.Errorf("%s: the hint is %q; want every command to name the namespace", name, said)
		}
	}
	waits.GenerateName, missing.Hint = "claim-", ""
	if said := exit.HintOf(r.advised(t.Context(), c, waits, missing)); strings.Contains(said, "--replace") {
		t.Errorf("the hint for a claim with a generated name is %q; want no --replace, which needs a name", said)
	}
	if err := r.show(waits); err != nil || !strings.Contains(s.Said.String(), "kubectl ipam claim show web -n shop") {
		t.Errorf("a claim that is not waited for: %v; it says %q", err, s.Said)
	}
	inUse := &exit.Failure{Reason: ipamv1alpha1.ReasonAddressInUse, Err: fmt.Errorf("in use")}
	if said := exit.HintOf(r.advised(t.Context(), c, waits, inUse)); !strings.Contains(said, "kubectl ipam why web -n shop names the holder") {
		t.Errorf("the hint for a taken address is %q; want the command that names its holder", said)
	}
	pool := gen.Pool("lab")
	if said := exit.HintOf(facts.AnswerOf(pool).Err(pool)); strings.Contains(said, " -n ") {
		t.Errorf("the hint about a pool is %q; want no namespace", said)
	}
}

// What fails and stays is named, with the commands that correct and delete it.
func TestAdvice_NamesWhatStays(t *testing.T) {
	s := stage.New(t)
	r := &Command{Session: s.Session}
	c := stage.Server(t, interceptor.Funcs{}, gen.Pool("internal"))
	child := gen.Pool("east", gen.ChildOf("internl", 20))
	child.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonPoolNotFound, "no pool")
	class := gen.Class("b", gen.Default())
	class.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: string(ipamv1alpha1.ReasonDefaultConflict)}}
	for _, test := range []struct {
		object client.Object
		says   []string
	}{
		{child, []string{`did you mean "internal"?`, "the pool stays: --replace with the corrected command replaces it, kubectl ipam pool release east deletes it"}},
		{class, []string{"the class stays: kubectl edit ipclass b changes it, kubectl delete ipclass b deletes it"}},
	} {
		hint := exit.HintOf(r.advised(t.Context(), c, test.object, facts.AnswerOf(test.object).Err(test.object)))
		for _, want := range test.says {
			if !strings.Contains(hint, want) {
				t.Errorf("the hint about %s is %q; want it to say %q", facts.Name(test.object), hint, want)
			}
		}
		test.object.SetUID("")
		if hint := exit.HintOf(r.advised(t.Context(), c, test.object, facts.AnswerOf(test.object).Err(test.object))); strings.Contains(hint, "stays") {
			t.Errorf("the hint about %s, which was not created, is %q", facts.Name(test.object), hint)
		}
	}
}
