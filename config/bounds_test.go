package config

import (
	"fmt"
	"math"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// unbounded are the fields without a bound in the schema, and why they need none.
var unbounded = map[string]string{
	".apiVersion": "one of those that are served",
	".kind":       "one of those that are served",
	".metadata":   "the server bounds names by their form, and annotations to 256 KiB; the policy ipam-metadata bounds finalizers and labels",

	".spec.parameters[*]":               "the rule of parameters bounds keys and values: TestIPClass_Create",
	".spec.poolSelector.matchLabels[*]": "the rule of matchLabels bounds keys and values: TestIPClaim_SelectorsAreBounded",
}

// Every string, list and map has a bound, in the schemas of the platform and of the tenants, so
// that no user can write a huge object.
func TestSchemas_AreBounded(t *testing.T) {
	used := sets.New[string]()
	for _, crd := range allCRDs(t) {
		for _, version := range crd.Spec.Versions {
			walk("", *version.Schema.OpenAPIV3Schema, func(path, what string) {
				if _, known := unbounded[path]; known {
					used.Insert(path)
					return
				}
				t.Errorf("%s %s: %s has no %s", crd.Name, version.Name, path, what)
			})
		}
	}
	if stale := sets.KeySet(unbounded).Difference(used); stale.Len() > 0 {
		t.Errorf("%v are exceptions from nothing", sets.List(stale))
	}
}

// walk calls lacks for every field without a bound, with the name of the missing bound.
func walk(path string, schema apiextensionsv1.JSONSchemaProps, lacks func(path, what string)) {
	switch schema.Type {
	case "string":
		if schema.MaxLength == nil && len(schema.Enum) == 0 && schema.Format != "date-time" {
			lacks(path, "maxLength")
		}
	case "array":
		if schema.MaxItems == nil {
			lacks(path, "maxItems")
		}
		walk(path+"[]", *schema.Items.Schema, lacks)
	case "object":
		walkObject(path, schema, lacks)
	case "integer", "number", "boolean":
	default:
		lacks(path, fmt.Sprintf("known type: %q", schema.Type))
	}
}

func walkObject(path string, schema apiextensionsv1.JSONSchemaProps, lacks func(path, what string)) {
	if more := schema.AdditionalProperties; more != nil {
		if schema.MaxProperties == nil {
			lacks(path, "maxProperties")
		}
		walk(path+"[*]", *more.Schema, lacks)
	}
	if schema.AdditionalProperties == nil && len(schema.Properties) == 0 {
		lacks(path, "properties")
	}
	if schema.XPreserveUnknownFields != nil {
		lacks(path, "end: it takes unknown fields")
	}
	for name, property := range schema.Properties {
		walk(path+"."+name, property, lacks)
	}
}

// Every integer that a user may write fits the Go type that reads it. An integer that does not could be stored, but
// never read.
func TestSchemas_IntegersFitTheirTypes(t *testing.T) {
	for _, crd := range allCRDs(t) {
		for _, version := range crd.Spec.Versions {
			spec := version.Schema.OpenAPIV3Schema.Properties["spec"]
			numbers(".spec", spec, func(path string, schema apiextensionsv1.JSONSchemaProps) {
				most, known := map[string]float64{"int32": math.MaxInt32, "int64": 1 << 53}[schema.Format] // JSON has 53 bits
				if schema.Type != "integer" || !known {
					t.Errorf("%s %s: %s is a %s of format %q, want an integer of format int32 or int64", crd.Name, version.Name, path, schema.Type, schema.Format)
				}
				if schema.Minimum == nil || schema.Maximum == nil || *schema.Minimum < -most || *schema.Maximum > most {
					t.Errorf("%s %s: %s has a minimum of %s and a maximum of %s, want both within an %s", crd.Name, version.Name, path,
						written(schema.Minimum), written(schema.Maximum), schema.Format)
				}
			})
		}
	}
}

func written(bound *float64) string {
	if bound == nil {
		return "none"
	}
	return fmt.Sprint(*bound)
}

// numbers calls visit for every number of a schema.
func numbers(path string, schema apiextensionsv1.JSONSchemaProps, visit func(path string, schema apiextensionsv1.JSONSchemaProps)) {
	if schema.Type == "integer" || schema.Type == "number" {
		visit(path, schema)
	}
	if schema.Items != nil {
		numbers(path+"[]", *schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil {
		numbers(path+"[*]", *schema.AdditionalProperties.Schema, visit)
	}
	for name, property := range schema.Properties {
		numbers(path+"."+name, property, visit)
	}
}

// The labels of a selector have the bounds of Kubernetes labels.
func TestIPClaim_SelectorsAreBounded(t *testing.T) {
	d := tenantDoors(t)["IPClaim"]
	key, value := strings.Repeat("k", 253)+"/"+strings.Repeat("k", 63), strings.Repeat("v", 63)
	labels := func(n int, key, value string) string {
		entries := make([]string, n)
		for i := range n {
			entries[i] = fmt.Sprintf("%q: %q", fmt.Sprintf("%s%d", key[:len(key)-min(len(key), 2)], i+10), value)
		}
		return "matchLabels: {" + strings.Join(entries, ", ") + "}"
	}
	expression := func(key, operator string, values ...string) string {
		return fmt.Sprintf("matchExpressions: [{key: %q, operator: %s, values: [%s]}]", key, operator, strings.Join(values, ", "))
	}
	times := func(n int, value string) []string {
		values := make([]string, n)
		for i := range values {
			values[i] = fmt.Sprintf("%q", value)
		}
		return values
	}
	const tooLong = "keys of matchLabels must not exceed 317 characters, and values 63"
	for name, tt := range map[string]struct{ selector, want string }{
		"the largest labels":          {labels(64, key, value), ""},
		"too many labels":             {labels(65, key, value), "must have at most 64 items"},
		"a long key":                  {labels(1, key+"k", value), tooLong},
		"a long value":                {labels(1, key, value+"v"), tooLong},
		"the largest expression":      {expression(key, "NotIn", times(64, value)...), ""},
		"a long key in an expression": {expression(key+"k", "Exists"), "Too long: may not be more than 317"},
		"a long value in a list":      {expression(key, "In", times(1, value+"v")...), "Too long: may not be more than 63"},
		"too many values":             {expression(key, "In", times(65, value)...), "must have at most 64 items"},
		"an unknown operator":         {expression(key, "Like", "a"), `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
	} {
		t.Run(name, func(t *testing.T) {
			manifest := object(t, fmt.Sprintf("{metadata: {name: c, namespace: default}, spec: {poolSelector: {%s}}}", tt.selector))
			expect(t, d.refusals(manifest, nil), tt.want)
		})
	}
}

// The conditions of a claim, which can be stored past webhooks and policies, take no more than 64 Ki characters: every
// replica keeps all claims in memory.
func TestSchemas_BoundTheConditionsOfClaims(t *testing.T) {
	for _, crd := range allCRDs(t, "IPClaim") {
		for _, version := range crd.Spec.Versions {
			conditions := version.Schema.OpenAPIV3Schema.Properties["status"].Properties["conditions"]
			var most int64
			for _, field := range conditions.Items.Schema.Properties {
				if field.MaxLength != nil {
					most += *field.MaxLength
				}
			}
			if most *= *conditions.MaxItems; most > 64<<10 {
				t.Errorf("%s %s: the conditions may have %d characters, want %d at most", crd.Name, version.Name, most, 64<<10)
			}
		}
	}
}

// held returns that many finalizers.
func held(many int) []string {
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint("example.com/", i)
	}
	return names
}

// labelled returns a pool with that many labels.
func labelled(many int) *ipamv1alpha1.IPPool {
	pool := gen.Pool("p")
	pool.Labels = map[string]string{}
	for i := range many {
		pool.Labels[fmt.Sprint("l", i)] = ""
	}
	return pool
}
