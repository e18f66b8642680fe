package config

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// door is what an API server does with an object before it stores it.
type door struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
}

// platformDoors returns the doors of the platform workspace, by kind.
func platformDoors(t *testing.T) map[string]door {
	t.Helper()
	return doorsOf(t, platformCRDs(t))
}

// tenantDoors returns the doors of a tenant's workspace, by kind.
func tenantDoors(t *testing.T) map[string]door {
	t.Helper()
	return doorsOf(t, tenantCRDs(t))
}

func doorsOf(t *testing.T, crds []*apiextensionsv1.CustomResourceDefinition) map[string]door {
	t.Helper()
	doors := map[string]door{}
	for _, crd := range crds {
		doors[crd.Spec.Names.Kind] = doorOf(t, crd)
	}
	return doors
}

// allCRDs returns the definitions of the platform and of the tenants: of some kinds, or of all.
func allCRDs(t *testing.T, kinds ...string) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return slices.DeleteFunc(append(platformCRDs(t), tenantCRDs(t)...), func(crd *apiextensionsv1.CustomResourceDefinition) bool {
		return len(kinds) > 0 && !slices.Contains(kinds, crd.Spec.Names.Kind)
	})
}

func platformCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return loadAs[*apiextensionsv1.CustomResourceDefinition](t, CRDs())
}

// tenantCRDs returns the schemas as kcp serves them: as CRDs.
func tenantCRDs(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	schemas := loadAs[*apisv1alpha1.APIResourceSchema](t, Schemas())
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(schemas))
	for _, offered := range schemas {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		crd.Name = offered.Spec.Names.Plural + "." + offered.Spec.Group
		crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: offered.Spec.Group, Names: offered.Spec.Names, Scope: offered.Spec.Scope,
		}
		for i := range offered.Spec.Versions {
			crd.Spec.Versions = append(crd.Spec.Versions, served(t, &offered.Spec.Versions[i]))
		}
		crds = append(crds, crd)
	}
	return crds
}

// served returns a version of a schema as that of a CRD.
func served(t *testing.T, version *apisv1alpha1.APIResourceVersion) apiextensionsv1.CustomResourceDefinitionVersion {
	t.Helper()
	openAPI := must.Get(version.GetSchema())(t)
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: version.Name, Served: version.Served, Storage: version.Storage,
		Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: openAPI},
		Subresources:             &version.Subresources,
		AdditionalPrinterColumns: version.AdditionalPrinterColumns,
	}
}

func doorOf(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) door {
	t.Helper()
	openAPI := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, openAPI, nil)
	if err != nil {
		t.Fatal(err)
	}
	structural := must.Get(schema.NewStructural(openAPI))(t)
	validator, _, err := validation.NewSchemaValidator(openAPI)
	if err != nil {
		t.Fatalf("NewSchemaValidator: %v", err)
	}
	return door{structural: structural, openAPI: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// refusals returns why the door refuses the object: nothing if it admits it. A
// nil old object means that the object is created.
func (d door) refusals(object, old map[string]any) []string {
	admitted := runtime.DeepCopyJSON(object)
	pruning.Prune(admitted, d.structural, true)
	defaulting.Default(admitted, d.structural)
	errs := validation.ValidateCustomResource(nil, admitted, d.openAPI)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.structural, admitted)...)
	var before any
	if old != nil {
		defaulting.Default(old, d.structural)
		before = old
	}
	ruled, _ := d.rules.Validate(context.Background(), nil, d.structural, admitted, before, celconfig.RuntimeCELCostBudget)
	messages := make([]string, 0, len(errs)+len(ruled))
	for _, err := range append(errs, ruled...) {
		messages = append(messages, err.Error())
	}
	return messages
}

// object turns a typed object or YAML into what a server reads.
func object(t *testing.T, source any) map[string]any {
	t.Helper()
	var unstructured map[string]any
	var err error
	if manifest, ok := source.(string); ok {
		err = yaml.Unmarshal([]byte(manifest), &unstructured, yaml.DisallowUnknownFields)
	} else {
		var data []byte
		if data, err = json.Marshal(source); err == nil {
			err = json.Unmarshal(data, &unstructured)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return integers(unstructured).(map[string]any)
}

// integers makes whole numbers int64, as a server reads them.
func integers(value any) any {
	switch of := value.(type) {
	case map[string]any:
		for key, field := range of {
			of[key] = integers(field)
		}
	case []any:
		for i, item := range of {
			of[i] = integers(item)
		}
	case float64:
		if of == float64(int64(of)) {
			return int64(of)
		}
	}
	return value
}

// expect asserts that one of the refusals says what is wanted, or that there is
// none when nothing is wanted.
func expect(t *testing.T, refusals []string, want string) {
	t.Helper()
	if want == "" {
		if len(refusals) > 0 {
			t.Errorf("refused: %s", strings.Join(refusals, "; "))
		}
		return
	}
	for _, refusal := range refusals {
		if strings.Contains(refusal, want) {
			return
		}
	}
	t.Errorf("the refusals are %q, none says %q", refusals, want)
}

// Every rule compiles, and costs no more than a server allows.
func TestSchemas_AreAccepted(t *testing.T) {
	for _, crd := range allCRDs(t) {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
		internal := &apiextensions.CustomResourceDefinition{}
		must.Do(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, internal, nil))
		internal.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal) {
			t.Errorf("%s: %v", crd.Name, err)
		}
	}
}
