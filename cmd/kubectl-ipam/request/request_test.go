package request

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/stage"
)

// A repeated request gets the same answer only if the labels that it gives, and the default of a
// class, are there.
func TestEnsure_Repeated(t *testing.T) {
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
