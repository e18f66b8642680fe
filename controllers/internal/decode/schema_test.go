package decode

import (
	"encoding/json"
	"io/fs"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/must"
)

// door treats objects of a kind as an API server does before it stores them: it prunes, defaults and validates.
type door struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// doors returns the doors of the CRDs, by kind.
func doors(t testing.TB) map[string]door {
	t.Helper()
	all := map[string]door{}
	files, err := fs.Glob(config.CRDs(), "*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are the CRDs %v, %v", files, err)
	}
	for _, file := range files {
		manifest := must.Get(fs.ReadFile(config.CRDs(), file))(t)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		must.Do(t, yaml.Unmarshal(manifest, crd))
		props := &apiextensions.JSONSchemaProps{}
		err = apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
		if err != nil {
			t.Fatalf("Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps: %v", err)
		}
		d := door{}
		if d.structural, err = schema.NewStructural(props); err != nil {
			t.Fatal(err)
		}
		if d.openAPI, _, err = validation.NewSchemaValidator(props); err != nil {
			t.Fatal(err)
		}
		d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
		all[crd.Spec.Names.Kind] = d
	}
	return all
}

// stored returns an object as the server stores it; ok is false if the server refuses the object.
func (d door) stored(t testing.TB, object map[string]any) (raw []byte, ok bool) {
	t.Helper()
	pruning.Prune(object, d.structural, true)
	defaulting.Default(object, d.structural)
	if len(validation.ValidateCustomResource(nil, object, d.openAPI)) > 0 {
		return nil, false
	}
	if errs, _ := d.rules.Validate(t.Context(), nil, d.structural, object, nil, celconfig.RuntimeCELCostBudget); len(errs) > 0 {
		return nil, false
	}
	return must.Get(json.Marshal(object))(t), true
}

// FuzzSchema searches for an object that the schema of its kind admits, and that Go cannot read. Every spec that is
// admitted must be readable. So must every status of a claim, because it can be stored past webhooks and policies. In
// any other status, single fields may be unreadable, but Object must still decode the rest.
func FuzzSchema(f *testing.F) {
	for _, seed := range []struct{ kind, spec, status string }{
		{"IPPool", `{"cidr":"10.0.0.0/24","reservations":{"leading":2147483648,"trailing":9223372036854775807,"unitPrefixLength":32}}`, `{}`},
		{"IPPool", `{"cidr":"10.0.0.0/24","reservations":{"leading":2147483647,"trailing":24.0,"unitPrefixLength":32}}`, `{"capacity":{"total":"1"}}`},
		{"IPPool", `{"cidr":"10.0.0.0/8","slices":{"prefixLength":24,"maxSlices":3000000000}}`, `{"nextRelease":"2026-01-02t03:04:05z"}`},
		{"IPPool", `{"cidr":"10.0.0.0/8","consumers":["root:a:*"],"releaseCooldown":"24h"}`, `{"ledger":{"id":"x","changes":9223372036854775807}}`},
		{"IPClaim", `{"className":"c","prefixLength":1e1,"ownerRef":{"kind":"VM","name":"v"}}`, `{"observedGeneration":1e30}`},
		{"IPClaim", `{"poolSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}}`,
			`{"conditions":[{"type":"Ready","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-02t03:04:05z"}]}`},
		{"IPClass", `{"ipFamily":"IPv4","allowedPrefixLengths":{"min":0,"max":32},"parameters":{"a":"b"},"retentionLease":"1h"}`, `{"offeringPools":4294967296}`},
		{"IPAllocation", `{"ipFamily":"IPv4","poolRef":{"name":"p"},"reclaimPolicy":"Delete"}`, `{"expires":"2026-01-02T03:04:05,5Z","allocatedCIDR":"10.0.0.0/32"}`},
	} {
		f.Add(seed.kind, seed.spec, seed.status)
	}
	all := doors(f)
	kinds := map[string]func() client.Object{
		"IPPool":       func() client.Object { return &ipamv1alpha1.IPPool{} },
		"IPClaim":      func() client.Object { return &ipamv1alpha1.IPClaim{} },
		"IPClass":      func() client.Object { return &ipamv1alpha1.IPClass{} },
		"IPAllocation": func() client.Object { return &ipamv1alpha1.IPAllocation{} },
	}
	f.Fuzz(func(t *testing.T, kind, spec, status string) {
		blank := kinds[kind]
		var specOf, statusOf map[string]any
		if blank == nil || utiljson.Unmarshal([]byte(spec), &specOf) != nil || utiljson.Unmarshal([]byte(status), &statusOf) != nil {
			return
		}
		object := func() map[string]any {
			return map[string]any{
				"apiVersion": "ipam.miloapis.com/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "o", "uid": "u"},
			}
		}
		plain, whole := object(), object()
		plain["spec"] = specOf
		if raw, ok := all[kind].stored(t, plain); ok {
			got := blank()
			if err := Object(raw, got); err != nil || Unreadable(got) != nil {
				t.Errorf("the schema admits %s, and Go reads: %v, %v", raw, err, Unreadable(got))
			}
		}
		whole["spec"], whole["status"] = plain["spec"], statusOf
		if raw, ok := all[kind].stored(t, whole); ok {
			got := blank()
			if err := Object(raw, got); err != nil || kind == "IPClaim" && Unreadable(got) != nil {
				t.Errorf("the schema admits %s, and Go reads: %v, %v", raw, err, Unreadable(got))
			}
		}
	})
}
