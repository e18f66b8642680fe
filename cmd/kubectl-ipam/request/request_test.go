package request

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// A repeated request for a pool or a class fails unless the object has the labels, and the mark as a default class,
// that the request gives. For a claim, other labels are only reported.
func TestEnsure_ComparesLabelsOfARepeatedRequest(t *testing.T) {
	labelled := func(object client.Object, labels map[string]string) client.Object {
		object.SetLabels(labels)
		return object
	}
	byDefault := gen.Class("internal", gen.Default())
	fra, ams := map[string]string{"site": "fra", "by": "gitops"}, map[string]string{"site": "ams"}
	for name, test := range map[string]struct {
		there, wanted client.Object
		code          int
		says          string
	}{
		"the same labels of a pool":      {labelled(gen.Pool("lab"), fra), labelled(gen.Pool("lab"), map[string]string{"site": "fra"}), exit.OK, ""},
		"no labels of a pool":            {labelled(gen.Pool("lab"), fra), gen.Pool("lab"), exit.OK, ""},
		"another label of a pool":        {labelled(gen.Pool("lab"), fra), labelled(gen.Pool("lab"), ams), exit.Conflict, `label site is "fra", not "ams"`},
		"a missing label of a class":     {gen.Class("internal"), labelled(gen.Class("internal"), ams), exit.Conflict, `label site is "", not "ams"`},
		"a class that becomes default":   {gen.Class("internal"), byDefault, exit.Conflict, ipamv1alpha1.AnnotationDefaultClass},
		"a class that stays the default": {byDefault, gen.Class("internal"), exit.OK, ""},
		"another CIDR of a pool":         {gen.Pool("lab", gen.CIDR("10.8.0.0/16")), gen.Pool("lab", gen.CIDR("10.9.0.0/16")), exit.Conflict, `spec.cidr is "10.8.0.0/16", not "10.9.0.0/16"`},
		"another label of a claim":       {labelled(gen.Claim("web"), fra), labelled(gen.Claim("web"), ams), exit.OK, `label site is "fra", not "ams"`},
		"the same label of a claim":      {labelled(gen.Claim("web"), fra), labelled(gen.Claim("web"), fra), exit.OK, ""},
		"a new claim":                    {gen.Claim("db"), labelled(gen.Claim("web"), fra), exit.OK, ""},
	} {
		s := stage.New(t)
		wanted := test.wanted.DeepCopyObject().(client.Object)
		wanted.SetUID("")
		err := (&Command{Session: s.Session}).ensure(t.Context(), stage.Server(t, interceptor.Funcs{}, test.there.DeepCopyObject().(client.Object)), wanted)
		said := s.Said.String()
		if err != nil {
			said += err.Error()
		}
		if exit.CodeOf(err) != test.code || !strings.Contains(said, test.says) || test.says == "" && said != "" {
			t.Errorf("%s: it ends with %d and says %q; want %d and %q", name, exit.CodeOf(err), said, test.code, test.says)
		}
	}
}

// With --replace, a pool or a claim is replaced if it has no block.
func TestEnsure_ReplacesOnlyUnboundObjects(t *testing.T) {
	full := stage.Allocated(ipamv1alpha1.ReasonPoolExhausted, "no room")
	waits := func(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool { pool.Status.Conditions = full; return pool }
	wanted := gen.Pool("east", gen.ChildOf("lab", 24))
	for name, test := range map[string]struct {
		there, wanted client.Object
		code          int
		says          string
	}{
		"a pool that waits":      {waits(gen.Pool("east", gen.ChildOf("lab", 20))), wanted, exit.OK, ""},
		"a pool with a block":    {stage.Ready(gen.Pool("east", gen.ChildOf("lab", 20)), "10.8.0.0/20", ipamv1alpha1.IPv4, 0, 20), wanted, exit.Conflict, "holds 10.8.0.0/20"},
		"the same pool":          {stage.Ready(wanted.DeepCopy(), "10.8.0.0/24", ipamv1alpha1.IPv4, 0, 24), wanted, exit.OK, ""},
		"a claim that waits":     {gen.Claim("web", gen.OfClass("a")), gen.Claim("web", gen.OfClass("b")), exit.OK, ""},
		"a claim with its block": {stage.Bound(gen.Claim("web"), "10.8.0.0/28", ipamv1alpha1.PoolRef{Name: "lab"}), gen.Claim("web", gen.OfClass("b")), exit.Conflict, "holds 10.8.0.0/28"},
	} {
		s := stage.New(t)
		c := stage.Server(t, interceptor.Funcs{}, test.there.DeepCopyObject().(client.Object))
		got := test.wanted.DeepCopyObject().(client.Object)
		got.SetUID("")
		err := (&Command{Session: s.Session, Replace: true}).ensure(t.Context(), c, got)
		if exit.CodeOf(err) != test.code || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: it ends with %v; want %d and %q", name, err, test.code, test.says)
		}
		stored := test.wanted.DeepCopyObject().(client.Object)
		testbed.Read(t, c, stored)
		want := test.wanted
		if test.code != exit.OK {
			want = test.there
		}
		if diff := cmp.Diff(specOf(want), specOf(stored)); diff != "" {
			t.Errorf("%s: another spec is stored (-want +got):\n%s", name, diff)
		}
	}
}

// A command in the advice names the namespace: without it, the command would be about a claim in the current namespace.
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

// If an object fails and stays, the advice names it, with the commands that correct and delete it.
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

// If a wait is interrupted, the error names the claim that stays, because the caller may not know its name.
func TestAwait_NamesTheClaimWhenInterrupted(t *testing.T) {
	s := stage.New(t)
	r := &Command{Session: s.Session}
	r.AddFlags(&cobra.Command{})
	claim := gen.Claim("claim-x7q2")
	claim.GenerateName = "claim-"
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.await(ctx, stage.Server(t, interceptor.Funcs{}, claim.DeepCopy()), claim)
	if want := "the claim stays: kubectl ipam claim release claim-x7q2 -n default deletes it"; exit.CodeOf(err) != exit.Aborted || exit.Explain(err) != "interrupted" || exit.HintOf(err) != want {
		t.Errorf("await ends with %d, %q, and the hint %q; want %d and %q", exit.CodeOf(err), exit.Explain(err), exit.HintOf(err), exit.Aborted, want)
	}
}

func TestNearest_FindsTheWordThatWasMeant(t *testing.T) {
	known := []string{"external", "internal", "internal-v6", "public"}
	for typed, want := range map[string]string{
		"internl": "internal", "interanl": "internal", "int": "internal", "Internal": "internal", "extrenal": "external",
		"internal-v4": "internal-v6", "internal": "", "gold": "", "": "", "pub": "public",
	} {
		if got := nearest(typed, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", typed, got, want)
		}
	}
	if got := nearest("evil", []string{"evi\x1bl"}); got != "" {
		t.Errorf("nearest suggests %q; want no name with unprintable characters", got)
	}
}
