package simkcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kcp-ipam/ipam/config"
)

// form is a compiled schema. It is safe for concurrent use.
type form struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	rules      *cel.Validator
	// beside has the rules that a change of the status alone can break. The rules of the spec have held since it was
	// stored.
	beside *cel.Validator
	// status is the schema of the status; nil: there is none, or a rule of the object reads the new status.
	status *form
	// guards says that a rule reads the status of the old object. Such a rule limits only changes of the spec.
	guards bool
	// compares says that a rule reads the old object.
	compares bool
	// faultless keeps, by the contents of objects, whether they have no faults.
	faultless *memory[bool]
}

// served names a schema: that of tenants differs from that of the platform.
type served struct {
	platform        bool
	plural, version string
}

// forms compiles the schemas of package config once for each process.
var forms = sync.OnceValue(func() map[served]*form {
	compiled := map[served]*form{}
	for crd := range manifests[apiextensionsv1.CustomResourceDefinition](config.CRDs()) {
		for _, version := range crd.Spec.Versions {
			compiled[served{true, crd.Spec.Names.Plural, version.Name}] = compile(version.Schema.OpenAPIV3Schema)
		}
	}
	for offered := range manifests[apisv1alpha1.APIResourceSchema](config.Schemas()) {
		for _, version := range offered.Spec.Versions {
			openAPI, err := version.GetSchema()
			if err != nil {
				panic(err)
			}
			compiled[served{false, offered.Spec.Names.Plural, version.Name}] = compile(openAPI)
		}
	}
	return compiled
})

// formOf returns the schema of a request; nil: the kind has none.
func formOf(q request) *form {
	return forms()[served{q.cluster == Platform, q.plural, q.version}]
}

// compile compiles a schema, and panics if that fails. The tests of package config show such a schema, too.
func compile(props *apiextensionsv1.JSONSchemaProps) *form {
	openAPI := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, openAPI, nil); err != nil {
		panic(err)
	}
	structural, err := schema.NewStructural(openAPI)
	if err != nil {
		panic(err)
	}
	validator, _, err := validation.NewSchemaValidator(openAPI)
	if err != nil {
		panic(err)
	}
	beside := structural.DeepCopy()
	if spec, ok := beside.Properties["spec"]; ok {
		withoutRules(&spec)
		beside.Properties["spec"] = spec
	}
	f := &form{
		structural: structural, openAPI: validator, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
		beside: cel.NewValidator(beside, true, celconfig.PerCallLimit), compares: compares(structural), faultless: newMemory[bool](20_000),
	}
	if status, ok := props.Properties["status"]; ok && !slices.ContainsFunc(props.XValidations, readsStatus) {
		f.status, f.guards = compile(&status), slices.ContainsFunc(props.XValidations, readsOldStatus)
	}
	return f
}

// readsStatus reports whether a rule of an object reads the object's status. readsOldStatus reports whether it reads
// the status of the old object.
func readsStatus(rule apiextensionsv1.ValidationRule) bool {
	return strings.Contains(strings.ReplaceAll(rule.Rule, "oldSelf.status", ""), "self.status")
}

func readsOldStatus(rule apiextensionsv1.ValidationRule) bool {
	return strings.Contains(rule.Rule, "oldSelf.status")
}

// compares reports whether a rule of a schema, or of anything in it, reads the old object.
func compares(s *schema.Structural) bool {
	if s == nil {
		return false
	}
	within := s.AdditionalProperties != nil && compares(s.AdditionalProperties.Structural)
	for _, property := range s.Properties {
		within = within || compares(&property)
	}
	return within || compares(s.Items) ||
		slices.ContainsFunc(s.XValidations, func(rule apiextensionsv1.ValidationRule) bool { return strings.Contains(rule.Rule, "oldSelf") })
}

// withoutRules drops the rules of a schema, and of all that is in it.
func withoutRules(s *schema.Structural) {
	s.XValidations = nil
	for name, property := range s.Properties {
		withoutRules(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		withoutRules(s.Items)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Structural != nil {
		withoutRules(s.AdditionalProperties.Structural)
	}
}

// admit prunes an object and sets its defaults, as a server does with an object that it receives.
func (f *form) admit(object map[string]any) {
	if f == nil {
		return
	}
	pruning.Prune(object, f.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, f.structural)
	defaulting.Default(object, f.structural)
}

// fill sets an object's defaults, as a server does with an object that it reads from its store. That includes the
// status, which a server drops at CREATE.
func (f *form) fill(object map[string]any) {
	if f != nil {
		defaulting.Default(object, f.structural)
	}
}

// refusals returns errs, which are the faults of the metadata, and why the schema refuses an object. If old is nil,
// the object is being created.
func (f *form) refusals(ctx context.Context, errs field.ErrorList, object, old map[string]any) field.ErrorList {
	if f == nil {
		return errs
	}
	if len(errs) > 0 {
		return f.faults(ctx, errs, object, old)
	}
	var status, oldStatus map[string]any
	rest, oldRest := object, old
	if old == nil || !f.guards || equality.Semantic.DeepEqual(object["spec"], old["spec"]) {
		status, rest = f.split(object)
		oldStatus, oldRest = f.split(old)
	}
	if f.admits(ctx, rest, oldRest) && (status == nil || f.status.admits(ctx, status, oldStatus)) {
		return nil
	}
	return f.faults(ctx, nil, object, old)
}

// split returns the status of an object, and the object without it, if the two can be judged apart. That saves time:
// after most changes, one of the two is known already.
func (f *form) split(object map[string]any) (status, rest map[string]any) {
	status, ok := object["status"].(map[string]any)
	if !ok || f.status == nil {
		return nil, object
	}
	rest = maps.Clone(object)
	delete(rest, "status")
	return status, rest
}

// admits reports whether an object has no faults. If no rule reads the old object, it is enough that the new object
// has none by itself: the same status is often reached by many different changes.
func (f *form) admits(ctx context.Context, object, old map[string]any) bool {
	if old != nil && !f.compares && f.admits(ctx, object, nil) {
		return true
	}
	return f.faultless.get(contents(object, old), func() bool { return len(f.faults(ctx, nil, object, old)) == 0 })
}

// contents returns the parts of objects that the result of a schema depends on. Of the metadata, only the name
// counts. The time at which a condition changed never counts.
func contents(objects ...map[string]any) []byte {
	seen := make([]map[string]any, len(objects))
	for i, object := range objects {
		seen[i] = maps.Clone(object)
		if metadata, ok := object["metadata"].(map[string]any); ok {
			seen[i]["metadata"] = []any{metadata["name"], metadata["generateName"]}
		}
	}
	b, err := json.Marshal(seen)
	if err != nil {
		panic(err)
	}
	return changedAt.ReplaceAll(b, []byte("a time"))
}

// changedAt matches the time at which a condition changed.
var changedAt = regexp.MustCompile(`"lastTransitionTime":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// faults returns errs, and adds why the schema refuses an object.
func (f *form) faults(ctx context.Context, errs field.ErrorList, object, old map[string]any) field.ErrorList {
	var before any
	if old != nil {
		before = old
	}
	shape := validation.ValidateCustomResource(nil, object, f.openAPI)
	if len(shape) > 0 && old != nil {
		shape = validation.ValidateCustomResourceUpdate(nil, object, old, f.openAPI) // without the faults of the old object
	}
	errs = append(errs, shape...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, f.structural, object)...)
	for _, err := range errs {
		if blocks(err.Type) {
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was invalid; "+
				"correct the existing errors to complete validation"))
		}
	}
	rules := f.rules
	if old != nil && equality.Semantic.DeepEqual(object["spec"], old["spec"]) {
		rules = f.beside
	}
	ruled, _ := rules.Validate(ctx, nil, f.structural, object, before, celconfig.RuntimeCELCostBudget)
	return append(errs, ruled...)
}

// blocks reports whether a server evaluates no rule after a fault.
func blocks(fault field.ErrorType) bool {
	switch fault {
	case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
		return true
	default:
		return false
	}
}

// manifests yields the objects of a type in a tree.
func manifests[T any](tree fs.FS) func(yield func(*T) bool) {
	return func(yield func(*T) bool) {
		want := fmt.Sprintf("%T", *new(T))
		err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			manifest, err := fs.ReadFile(tree, path)
			if err != nil {
				return err
			}
			return each(manifest, want[bytes.LastIndexByte([]byte(want), '.')+1:], yield)
		})
		if err != nil && !errors.Is(err, fs.SkipAll) {
			panic(err)
		}
	}
}

// each yields the objects of a kind in a manifest.
func each[T any](manifest []byte, kind string, yield func(*T) bool) error {
	documents := yaml.NewYAMLToJSONDecoder(bytes.NewReader(manifest))
	for {
		var document map[string]any
		err := documents.Decode(&document)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if document["kind"] != kind {
			continue
		}
		o := new(T)
		if err := decode(document, o); err != nil {
			return err
		}
		if !yield(o) {
			return fs.SkipAll
		}
	}
}
