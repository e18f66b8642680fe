package door

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/must"
)

// schemaOf is the schema of claims, checked as the server does.
type schemaOf struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

func newSchema(t *testing.T) schemaOf {
	t.Helper()
	manifest := must.Get(fs.ReadFile(config.CRDs(), "ipam.miloapis.com_ipclaims.yaml"))(t)
	crd, openAPI := &apiextensionsv1.CustomResourceDefinition{}, &apiextensions.JSONSchemaProps{}
	must.Do(t, yaml.Unmarshal(manifest, crd))
	must.Do(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, openAPI, nil))
	structural := must.Get(schema.NewStructural(openAPI))(t)
	validator, _, err := validation.NewSchemaValidator(openAPI)
	must.Do(t, err)
	return schemaOf{structural, validator, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// refusal returns why the server does not store an object; empty: it stores the object.
func (s schemaOf) refusal(object map[string]any) string {
	errs := validation.ValidateCustomResource(nil, object, s.openAPI)
	ruled, _ := s.rules.Validate(context.Background(), nil, s.structural, object, nil, celconfig.RuntimeCELCostBudget)
	if errs = append(errs, ruled...); len(errs) == 0 {
		return ""
	}
	return errs.ToAggregate().Error()
}

// fields returns values, as JSON, for each field of a spec: valid ones, and some just beyond a bound.
func fields() map[string][]string {
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	list := func(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	labels := func(n int) string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("k", i)] = ""
		}
		encoded, _ := json.Marshal(all)
		return string(encoded)
	}
	ref := func(kind, name string) string { return fmt.Sprintf(`{"kind":%q,"name":%q}`, kind, name) }
	scope := func(role, ref string) string { return "{" + role + ":" + ref + "}" }
	roles := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"r%d":%s`, i, ref("K", "a"))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	owner := func(field, value string) string { return `{"kind":"Pod","name":"web",` + field + `:` + value + `}` }
	requires := func(key, operator, values string) string {
		return `{"matchExpressions":[{"key":` + key + `,"operator":` + operator + `,"values":` + values + `}]}`
	}
	return map[string][]string{
		"className":    {`"a"`, `""`, `null`, text(256), text(257), `"` + strings.Repeat("ä", 256) + `"`},
		"prefixLength": {`0`, `1`, `-1`, `32`, `33`, `64`, `128`, `129`},
		"ipFamily":     {`"IPv4"`, `"IPv6"`, `"IPv5"`, `""`},
		"address": {
			`"10.0.0.1"`, `"10.0.0.1/32"`, `"10.0.0.0/28"`, `"10.0.0.7/28"`, `"10.0.0.0/028"`, `"10.0.0.0/33"`, `"10.0.0.01"`, `""`, `"web"`,
			`"2001:db8::"`, `"2001:db8::/64"`, `"2001:db8::1/64"`, `"2001:DB8::1"`, `"2001:db8:0::/64"`, `"fe80::1%eth0"`, `"::ffff:10.0.0.1"`, `"::ffff:10.0.0.0/120"`,
			`"0.0.0.0"`, `"::"`, `"0.0.0.0/0"`, `"::/0"`, `"0.0.0.0/1"`,
		},
		"number":         {`0`, `1`, `-1`, `4294967295`, `4294967296`, `null`},
		"reclaimPolicy":  {`"Delete"`, `"Retain"`, `"Recycle"`, `""`},
		"unmetPolicy":    {`"Wait"`, `"Refuse"`, `"refuse"`, `""`},
		"retainedPolicy": {`"Wait"`, `"Reuse"`, `"Delete"`, `""`},
		"target":         {`"Block"`, `"ScopeRange"`, `"Range"`, `""`},
		"scope": {
			`{}`, `null`, roles(16), roles(17), scope(text(63), ref("K", "a")), scope(text(64), ref("K", "a")), scope(`"a-b_c"`, ref("K", "a")), scope(`"-a"`, ref("K", "a")),
			scope(`"a-"`, ref("K", "a")), scope(`"9"`, ref("K", "a")), scope(`""`, ref("K", "a")), scope(`"project"`, ref("K", "a")), scope(`"allProjects"`, ref("K", "a")),
			scope(`"r"`, ref("", "a")), scope(`"r"`, ref("K", "")), scope(`"r"`, ref("K", "a b")), scope(`"r"`, ref("K", "a=b,c")), scope(`"r"`, `{"kind":"K","name":"a\u0001"}`), scope(`"r"`, ref("K", "A_1:ä/b")), scope(`"r"`, `{"kind":"K"}`), scope(`"r"`, `{"name":"a"}`), scope(`"r"`, `null`), scope(`"r"`, `{}`),
			scope(`"r"`, ref(strings.Repeat("x", 253), strings.Repeat("x", 253))), scope(`"r"`, ref("K", strings.Repeat("x", 254))), scope(`"r"`, ref(strings.Repeat("x", 254), "a")),
			scope(`"r"`, `{"apiGroup":`+text(253)+`,"kind":"K","name":"a"}`), scope(`"r"`, `{"apiGroup":`+text(254)+`,"kind":"K","name":"a"}`), scope(`"r"`, `{"apiGroup":null,"kind":"K"}`),
		},
		"poolRef": {
			`{"name":"p"}`, `{"name":""}`, `{}`, `null`, `{"name":null}`, `{"name":"p","projectRef":null}`, `{"name":"p","projectRef":{"name":null}}`, `{"name":` + text(256) + `}`, `{"name":` + text(257) + `}`,
			`{"name":"p","projectRef":{"name":"root:a-b:c"}}`, `{"name":"p","projectRef":{"name":"root::a"}}`, `{"name":"p","projectRef":{}}`,
			`{"name":"p","projectRef":{"name":` + text(257) + `}}`,
		},
		"poolSelector": {
			`{}`, `null`, `{"matchLabels":null}`, `{"matchLabels":{"":"b"}}`, `{"matchLabels":{"a":null}}`, `{"matchExpressions":null}`,
			`{"matchExpressions":[null]}`, `{"matchExpressions":[{"operator":"Exists"}]}`, `{"matchExpressions":[{"key":null,"operator":"Exists"}]}`,
			`{"matchExpressions":[{"key":"","operator":"Exists"}]}`, `{"matchExpressions":[{"key":"a"}]}`, `{"matchExpressions":[{"key":"a","operator":null}]}`,
			requires(`"a"`, `"In"`, `[null]`), requires(`"a"`, `"In"`, `[""]`), requires(`"a"`, `"In"`, `null`), `{"projectRef":null}`,
			`{"matchLabels":{"a":"b"}}`, `{"matchLabels":` + labels(64) + `}`, `{"matchLabels":` + labels(65) + `}`,
			`{"matchLabels":{"a":` + text(63) + `}}`, `{"matchLabels":{"a":` + text(64) + `}}`,
			`{"matchLabels":{` + text(317) + `:""}}`, `{"matchLabels":{` + text(318) + `:""}}`, `{"projectRef":{"name":"Root"}}`,
			requires(`"a"`, `"In"`, `["b"]`), requires(`"a"`, `"Exists"`, `[]`), requires(`"a"`, `"Equals"`, `["b"]`), requires(`"a"`, `""`, `["b"]`),
			requires(text(317), `"NotIn"`, `["b"]`), requires(text(318), `"NotIn"`, `["b"]`),
			requires(`"a"`, `"In"`, list(64, text(63))), requires(`"a"`, `"In"`, list(65, `"b"`)), requires(`"a"`, `"In"`, list(1, text(64))),
			`{"matchExpressions":` + list(64, `{"key":"a","operator":"DoesNotExist"}`) + `}`,
			`{"matchExpressions":` + list(65, `{"key":"a","operator":"DoesNotExist"}`) + `}`,
		},
		"ownerRef": {
			`{"kind":"Pod","name":"web"}`, `{"kind":"Pod"}`, `null`, `{"kind":"Pod","name":null}`, owner(`"uid"`, `null`), owner(`"uid"`, `""`), `{"name":"web"}`, `{"kind":"","name":"web"}`, owner(`"apiGroup"`, `""`),
			owner(`"apiGroup"`, text(257)), owner(`"namespace"`, text(256)), owner(`"namespace"`, text(257)), owner(`"uid"`, text(257)),
		},
	}
}

// The door decides exactly the claims that the server stores by the schema.
func TestStorable_AgreesWithTheSchema(t *testing.T) {
	t.Parallel()
	server, all := newSchema(t), fields()
	judge := func(spec string) {
		d := must.Get(readDraft([]byte(`{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{"name":"a"}` + spec + `}`)))(t)
		claim := must.Get(d.claim())(t)
		claim.Namespace = "default"
		if why, got := server.refusal(d.Object), d.storable(claim); got != (why == "") {
			t.Errorf("storable(%.300s) = %t; the server says %q", spec, got, why)
		}
	}
	judge("")
	judge(`,"spec":{}`)
	for name, values := range all {
		for _, value := range values {
			judge(fmt.Sprintf(`,"spec":{%q:%s}`, name, value))
		}
	}
	judge(`,"spec":{"className":"a","poolRef":{"name":"p"}}`)
	judge(`,"spec":{"className":"a","poolSelector":{}}`)
	for name, values := range all {
		for _, value := range values {
			judge(fmt.Sprintf(`,"spec":{"target":"ScopeRange",%q:%s}`, name, value))
		}
	}
	judge(`,"spec":{"poolRef":{"name":"p"},"poolSelector":{}}`)
	for _, address := range all["address"] {
		for _, length := range all["prefixLength"] {
			judge(fmt.Sprintf(`,"spec":{"address":%s,"prefixLength":%s}`, address, length))
		}
	}
	for _, family := range all["ipFamily"] {
		for _, address := range all["address"] {
			judge(fmt.Sprintf(`,"spec":{"address":%s,"ipFamily":%s}`, address, family))
		}
		for _, length := range all["prefixLength"] {
			judge(fmt.Sprintf(`,"spec":{"prefixLength":%s,"ipFamily":%s}`, length, family))
		}
	}
}

// The Answerer is not asked about a claim whose spec is too long. The status that the client has sent is removed
// nevertheless.
func TestAnswer_LeavesAClaimWithALongSpecUndecided(t *testing.T) {
	s := answering(t, boundAnswer, nil)
	claim := func(n int, status string) string {
		return `{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1"}},"spec":{"poolSelector":{"matchLabels":{"a":"` +
			strings.Repeat("x", n) + `"}}}` + status + `}`
	}
	sameJSON(t, s.created(claim(maxSpec, `,"status":{"phase":"Bound"}`)), claim(maxSpec, ""))
	if len(s.asked) != 0 {
		t.Error("the Answerer is asked for a claim whose spec is too long")
	}
	long := creating(`{"metadata":{"name":"a","annotations":{"kcp.io/cluster":"c1","note":"` + strings.Repeat("x", maxSpec) + `"}},"spec":{}}`)
	if s.review(s.answerPath(), long); len(s.asked) != 1 {
		t.Error("the Answerer is not asked for a claim whose annotation is long")
	}
}

// A claim with more finalizers or labels than the policy ipam-metadata admits is not decided, because its CREATE fails.
func TestStorable_CountsMetadata(t *testing.T) {
	for name, tt := range map[string]struct {
		finalizers, labels int
		want               bool
	}{
		"as many as it may have": {ipamv1alpha1.MaxFinalizers, ipamv1alpha1.MaxLabels, true},
		"a finalizer more":       {ipamv1alpha1.MaxFinalizers + 1, 0, false},
		"a label more":           {0, ipamv1alpha1.MaxLabels + 1, false},
	} {
		d := must.Get(readDraft([]byte(`{"apiVersion":"ipam.miloapis.com/v1alpha1","kind":"IPClaim","metadata":{"name":"a"},"spec":{}}`)))(t)
		claim := must.Get(d.claim())(t)
		claim.Namespace, claim.Labels = "default", map[string]string{}
		for i := range tt.finalizers {
			claim.Finalizers = append(claim.Finalizers, fmt.Sprint("example.com/", i))
		}
		for i := range tt.labels {
			claim.Labels[fmt.Sprint("l", i)] = ""
		}
		if got := d.storable(claim); got != tt.want {
			t.Errorf("%s: storable = %t, want %t", name, got, tt.want)
		}
	}
}
