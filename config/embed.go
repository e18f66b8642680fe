// Package config holds the manifests: the API, what makes a workspace of kcp the
// platform, what a cluster without kcp needs instead, and samples. They are plain YAML
// for kubectl; this package hands them to Go.
//
// Two values are known only on a running kcp. In their place the manifests hold
// PlatformCluster and ClassesIdentity, to be replaced as plain text before they
// are applied.
package config

import (
	"embed"
	"io/fs"
)

const (
	// PlatformCluster stands in the policies for the name of the platform's
	// logical cluster.
	PlatformCluster = "${PLATFORM_CLUSTER}"
	// ClassesIdentity stands in the APIExport for status.identityHash of the
	// CachedResource. A server without CachedResources is given the APIExport
	// without the resource ipclasses.
	ClassesIdentity = "${CLASSES_IDENTITY}"
)

//go:embed crd/ipam.*.yaml kcp standalone/policies standalone/rbac capi/rbac capi/workspace/rbac samples
var files embed.FS

//go:embed kcp/apiexport.yaml
var apiExport []byte

//go:embed standalone/account.yaml
var standaloneAccount []byte

//go:embed kcp/cachedresource.yaml
var cachedResource []byte

// CRDs returns the four kinds, for the platform workspace or a plain Kubernetes. Apply the
// policies first: they refuse what no CRD can.
func CRDs() fs.FS { return sub("crd") }

// Schemas returns the APIResourceSchemas of the four kinds, for tenants.
func Schemas() fs.FS { return sub("kcp/schemas") }

// Policies returns the ValidatingAdmissionPolicies and their bindings, for the
// platform workspace. They hold PlatformCluster.
func Policies() fs.FS { return sub("kcp/policies") }

// PlatformRBAC is, for the platform workspace: the upper bound of what tenants
// may do, the controller's identity and its rights, and roles for people.
func PlatformRBAC() fs.FS { return sub("kcp/rbac/platform") }

// TenantRBAC returns the roles for the people of a tenant's workspace.
func TenantRBAC() fs.FS { return sub("kcp/rbac/tenant") }

// StandalonePolicies returns the ValidatingAdmissionPolicies and their bindings, for a
// cluster without kcp.
func StandalonePolicies() fs.FS { return sub("standalone/policies") }

// StandaloneAccount returns the manifest of the controller's identity, for one that runs outside of
// such a cluster.
func StandaloneAccount() []byte { return append([]byte(nil), standaloneAccount...) }

// StandaloneRBAC is, for a cluster without kcp: the controller's rights, and roles for
// people.
func StandaloneRBAC() fs.FS { return sub("standalone/rbac") }

// ClusterAPIRBAC is, for a cluster without kcp, what the controller may do beside
// StandaloneRBAC to serve the machines of Cluster API.
func ClusterAPIRBAC() fs.FS { return sub("capi/rbac") }

// ClusterAPIWorkspaceRBAC is what the controller may do in a management cluster whose pools are
// in a workspace. Its account is that of StandaloneAccount.
func ClusterAPIWorkspaceRBAC() fs.FS { return sub("capi/workspace/rbac") }

// PlatformSamples are two classes and a pool behind each, for the platform workspace.
func PlatformSamples() fs.FS { return sub("samples/platform") }

// TenantSamples returns a claim, for a tenant's workspace.
func TenantSamples() fs.FS { return sub("samples/tenant") }

// APIExport returns the manifest of the APIExport. It holds ClassesIdentity.
func APIExport() []byte { return append([]byte(nil), apiExport...) }

// CachedResource returns the manifest of the CachedResource that shows classes to
// tenants.
func CachedResource() []byte { return append([]byte(nil), cachedResource...) }

// sub panics on a path that is not embedded, which any test of the caller shows.
func sub(dir string) fs.FS {
	tree, err := fs.Sub(files, dir)
	if err != nil {
		panic(err)
	}
	return tree
}
