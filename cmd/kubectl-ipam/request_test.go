package main

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
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
		"the same labels of a pool":      {labelled(gen.Pool("lab"), fra), labelled(gen.Pool("lab"), map[string]string{"site": "fra"}), exitOK, ""},
		"no labels of a pool":            {labelled(gen.Pool("lab"), fra), gen.Pool("lab"), exitOK, ""},
		"another label of a pool":        {labelled(gen.Pool("lab"), fra), labelled(gen.Pool("lab"), ams), exitConflict, `label site is "fra", not "ams"`},
		"a missing label of a class":     {gen.Class("internal"), labelled(gen.Class("internal"), ams), exitConflict, `label site is "", not "ams"`},
		"a class that becomes default":   {gen.Class("internal"), byDefault, exitConflict, ipamv1alpha1.AnnotationDefaultClass},
		"a class that stays the default": {byDefault, gen.Class("internal"), exitOK, ""},
		"another label of a claim":       {labelled(gen.Claim("web"), fra), labelled(gen.Claim("web"), ams), exitOK, `label site is "fra", not "ams"`},
		"the same label of a claim":      {labelled(gen.Claim("web"), fra), labelled(gen.Claim("web"), fra), exitOK, ""},
		"a new claim":                    {gen.Claim("db"), labelled(gen.Claim("web"), fra), exitOK, ""},
	} {
		s := newStage(t)
		wanted := test.wanted.DeepCopyObject().(client.Object)
		wanted.SetUID("")
		err := (&request{session: s.session}).ensure(t.Context(), estateServer(t, interceptor.Funcs{}, test.there.DeepCopyObject().(client.Object)), wanted)
		said := s.errs.String()
		if err != nil {
			said += err.Error()
		}
		if exitCode(err) != test.code || !strings.Contains(said, test.says) || test.says == "" && said != "" {
			t.Errorf("%s: it ends with %d and says %q; want %d and %q", name, exitCode(err), said, test.code, test.says)
		}
	}
}
