package simkcp

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

const (
	ipamGroup    = ipamv1alpha1.GroupName
	kcpGroup     = "apis.kcp.io"
	webhookGroup = "admissionregistration.k8s.io"
)

// kind is a kind that a world serves.
type kind struct {
	group, name, plural string
	versions            []string // the first is stored
	statusIn            []string // versions with a status subresource
	namespaced          bool
}

var kinds = []kind{
	{group: ipamGroup, name: "IPClass", plural: "ipclasses", versions: []string{"v1alpha1"}, statusIn: []string{"v1alpha1"}},
	{group: ipamGroup, name: "IPPool", plural: "ippools", versions: []string{"v1alpha1"}, statusIn: []string{"v1alpha1"}},
	{
		group: ipamGroup, name: "IPClaim", plural: "ipclaims",
		versions: []string{"v1alpha1", "v1controller1"}, statusIn: []string{"v1controller1"}, namespaced: true,
	},
	{group: ipamGroup, name: "IPAllocation", plural: "ipallocations", versions: []string{"v1alpha1"}, namespaced: true},
	{group: kcpGroup, name: "APIBinding", plural: "apibindings", versions: []string{"v1alpha2", "v1alpha1"}},
	{group: kcpGroup, name: "APIExport", plural: "apiexports", versions: []string{"v1alpha2", "v1alpha1"}},
	{group: kcpGroup, name: "APIExportEndpointSlice", plural: "apiexportendpointslices", versions: []string{"v1alpha1"}},
	{group: "coordination.k8s.io", name: "Lease", plural: "leases", versions: []string{"v1"}, namespaced: true},
	{group: "events.k8s.io", name: "Event", plural: "events", versions: []string{"v1"}, namespaced: true},
	{group: "", name: "Event", plural: "events", versions: []string{"v1"}, namespaced: true},
	{group: "", name: "Namespace", plural: "namespaces", versions: []string{"v1"}},
	{group: "", name: "ConfigMap", plural: "configmaps", versions: []string{"v1"}, namespaced: true},
	{group: "", name: "Secret", plural: "secrets", versions: []string{"v1"}, namespaced: true},
	{group: webhookGroup, name: "MutatingWebhookConfiguration", plural: "mutatingwebhookconfigurations", versions: []string{"v1"}},
	{group: webhookGroup, name: "ValidatingWebhookConfiguration", plural: "validatingwebhookconfigurations", versions: []string{"v1"}},
}

// apiVersion returns the apiVersion of an object of a version.
func (k kind) apiVersion(version string) string {
	return schema.GroupVersion{Group: k.group, Version: version}.String()
}

// serves reports whether a version is served, with a subresource unless that is empty.
func (k kind) serves(version, subresource string) bool {
	if subresource == "" {
		return slices.Contains(k.versions, version)
	}
	return subresource == "status" && slices.Contains(k.statusIn, version)
}

func (k kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: k.plural}
}

func (k kind) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: k.group, Version: version, Kind: k.name}
}
