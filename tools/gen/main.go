// Command gen writes what follows from the CRDs in config/crd: the kcp side of the API,
// which is an APIResourceSchema for each kind and the APIExport that offers them to
// tenants, and the reference of the API for people, docs/api.md. To the CRD of IPClaim it
// adds the version in which the controller writes, and bounds its conditions. It runs from the root of the
// repository, after controller-gen.
//
// A schema is named after its content, so a changed schema is a new object, and
// the APIExport that names it moves the bound workspaces to it.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	cachev1alpha1 "github.com/kcp-dev/sdk/apis/cache/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	crds      = "config/crd/ipam.*.yaml"
	schemaDir = "config/kcp/schemas"
	export    = "config/kcp/apiexport.yaml"
	reference = "docs/api.md"

	// statusVersion is the name of the package apis/ipam/v1controller1.
	statusVersion = "v1controller1"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := filepath.Glob(crds)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRD in %s: run controller-gen first, and this from the root of the repository", crds)
	}
	if err := errors.Join(os.RemoveAll(schemaDir), os.MkdirAll(schemaDir, 0o755)); err != nil {
		return err
	}
	var (
		kinds   []*apiextensionsv1.CustomResourceDefinition
		schemas []*apisv1alpha1.APIResourceSchema
	)
	for _, file := range files {
		crd, schema, err := writeSchema(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		kinds, schemas = append(kinds, crd), append(schemas, schema)
	}
	if err := writeReference(reference, kinds); err != nil {
		return err
	}
	return write(export, exportOf(schemas))
}

// writeSchema writes the schema of a CRD, and the CRD again if something is added to it.
func writeSchema(file string) (*apiextensionsv1.CustomResourceDefinition, *apisv1alpha1.APIResourceSchema, error) {
	crd, err := read(file)
	if err != nil {
		return nil, nil, err
	}
	if crd.Spec.Names.Plural == "ipclaims" {
		withOwnConditions(crd)
		withStatusVersion(crd)
		if err := writeDefinition(file, crd); err != nil {
			return nil, nil, err
		}
	}
	schema, err := schemaOf(crd.DeepCopy())
	if err != nil {
		return nil, nil, err
	}
	return crd, schema, write(filepath.Join(schemaDir, schema.Spec.Names.Plural+".yaml"), schema)
}

func read(file string) (*apiextensionsv1.CustomResourceDefinition, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, yaml.UnmarshalStrict(data, crd)
}

// schemaOf returns the schema that offers a CRD to tenants. It changes the CRD.
func schemaOf(crd *apiextensionsv1.CustomResourceDefinition) (*apisv1alpha1.APIResourceSchema, error) {
	if crd.Spec.Names.Plural == "ippools" {
		withoutPlatform(crd)
	}
	schema, err := apisv1alpha1.CRDToAPIResourceSchema(crd, "v0")
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(schema.Spec)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	schema.Name = "v" + hex.EncodeToString(sum[:4]) + "." + crd.Name
	schema.APIVersion, schema.Kind = apisv1alpha1.SchemeGroupVersion.String(), "APIResourceSchema"
	return schema, nil
}

// plainTime is a time as our programs write it. The format date-time admits others, such as 2026-01-02t03:04:05z, that Go
// does not read.
const plainTime = `^\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$`

// longestMessage is how long a message of a claim's conditions may be. The controller writes 1,024 bytes at most.
const longestMessage = 2048

// withOwnConditions bounds the conditions of a claim to those that the controller writes and reads, because a status
// may be stored that no webhook and no policy has seen. The controller takes no block back from a claim that it
// cannot read, and every replica keeps the messages of all claims in memory.
func withOwnConditions(crd *apiextensionsv1.CustomResourceDefinition) {
	status := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"]
	condition := status.Properties["conditions"].Items.Schema
	moment, message := condition.Properties["lastTransitionTime"], condition.Properties["message"]
	moment.Pattern, message.MaxLength = plainTime, new(int64(longestMessage))
	condition.Properties["lastTransitionTime"], condition.Properties["message"] = moment, message
}

// withStatusVersion adds the version in which the controller writes the status of claims. Only its name and its
// status subresource differ from the first version: tenants may write in it too, and must find the same rules.
func withStatusVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	version := *crd.Spec.Versions[0].DeepCopy()
	version.Name, version.Storage = statusVersion, false
	version.Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	crd.Spec.Versions = append(crd.Spec.Versions[:1], version)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
}

// withoutPlatform takes from the pool what only the platform workspace may
// write. What a schema doesn't offer needs no policy to refuse it.
func withoutPlatform(crd *apiextensionsv1.CustomResourceDefinition) {
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	spec := root.Properties["spec"]
	visibility := spec.Properties["visibility"]
	visibility.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"consumer"`)}, {Raw: []byte(`"shared"`)}}
	spec.Properties["visibility"] = visibility
	spec.XValidations = append(spec.XValidations, apiextensionsv1.ValidationRule{
		Rule:      "!has(self.slices)",
		Message:   "spec.slices is not allowed outside the platform workspace: remove it",
		FieldPath: ".slices",
	})
	root.Properties["spec"] = spec
}

// writeDefinition writes a CRD as controller-gen does: without a status, which is the
// server's.
func writeDefinition(path string, crd *apiextensionsv1.CustomResourceDefinition) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	if err != nil {
		return err
	}
	delete(content, "status")
	return write(path, content)
}

func write(path string, object any) error {
	data, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	return os.WriteFile(path, append([]byte("# Generated by tools/gen. Do not edit.\n"), data...), 0o644)
}

// exportOf returns the APIExport that offers the schemas. Tenants store objects of their own, except classes, which
// they see through a cache of the platform's.
func exportOf(schemas []*apisv1alpha1.APIResourceSchema) *apisv1alpha2.APIExport {
	export := &apisv1alpha2.APIExport{}
	export.APIVersion, export.Kind = apisv1alpha2.SchemeGroupVersion.String(), "APIExport"
	export.Name = schemas[0].Spec.Group
	export.Spec.MaximalPermissionPolicy = &apisv1alpha2.MaximalPermissionPolicy{Local: &apisv1alpha2.LocalAPIExportPolicy{}}
	export.Spec.PermissionClaims = []apisv1alpha2.PermissionClaim{{
		// Of the core group: kcp takes events.k8s.io for the same, but not the reverse.
		GroupResource: apisv1alpha2.GroupResource{Resource: "events"},
		Verbs:         []string{"create", "patch", "update"},
	}}
	for _, schema := range schemas {
		export.Spec.Resources = append(export.Spec.Resources, apisv1alpha2.ResourceSchema{
			Name:    schema.Spec.Names.Plural,
			Group:   schema.Spec.Group,
			Schema:  schema.Name,
			Storage: storageOf(schema),
		})
	}
	return export
}

func storageOf(schema *apisv1alpha1.APIResourceSchema) apisv1alpha2.ResourceSchemaStorage {
	plural := schema.Spec.Names.Plural
	if plural != "ipclasses" {
		return apisv1alpha2.ResourceSchemaStorage{CRD: &apisv1alpha2.ResourceSchemaStorageCRD{}}
	}
	return apisv1alpha2.ResourceSchemaStorage{Virtual: &apisv1alpha2.ResourceSchemaStorageVirtual{
		Reference: corev1.TypedLocalObjectReference{
			APIGroup: new(cachev1alpha1.SchemeGroupVersion.Group),
			Kind:     "CachedResourceEndpointSlice",
			Name:     plural,
		},
		IdentityHash: "${CLASSES_IDENTITY}",
	}}
}
