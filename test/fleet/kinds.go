package fleet

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is a kind that the stand-in serves.
type kind struct {
	group, name, plural string
	versions            []string // the preferred one, in which objects are stored, comes first
	statusIn            []string // versions with a status subresource
	namespaced          bool
}

const (
	ipamGroup    = "ipam.miloapis.com"
	kcpGroup     = "apis.kcp.io"
	webhookGroup = "admissionregistration.k8s.io"
)

var kinds = []kind{
	{group: ipamGroup, name: "IPClass", plural: "ipclasses", versions: []string{"v1alpha1"}, statusIn: []string{"v1alpha1"}},
	{group: ipamGroup, name: "IPPool", plural: "ippools", versions: []string{"v1alpha1"}, statusIn: []string{"v1alpha1"}},
	{group: ipamGroup, name: "IPClaim", plural: "ipclaims", versions: []string{"v1alpha1", "v1controller1"}, statusIn: []string{"v1controller1"}, namespaced: true},
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

// apiVersion returns the apiVersion of objects of a version.
func (k kind) apiVersion(version string) string {
	if k.group == "" {
		return version
	}
	return k.group + "/" + version
}

// serves reports whether the kind is served in a version, with the subresource unless that is empty.
func (k kind) serves(version, subresource string) bool {
	if subresource == "" {
		return slices.Contains(k.versions, version)
	}
	return subresource == "status" && slices.Contains(k.statusIn, version)
}

// discover answers requests for discovery. ok is false for any other path.
func discover(w http.ResponseWriter, path []string) (ok bool) {
	switch {
	case len(path) == 1 && path[0] == "api":
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case len(path) == 2 && path[0] == "api":
		answer(w, http.StatusOK, resources("", path[1]))
	case len(path) == 1 && path[0] == "apis":
		answer(w, http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups()})
	case len(path) == 2 && path[0] == "apis":
		i := slices.IndexFunc(groups(), func(g metav1.APIGroup) bool { return g.Name == path[1] })
		if i < 0 {
			return false
		}
		answer(w, http.StatusOK, groups()[i])
	case len(path) == 3 && path[0] == "apis":
		answer(w, http.StatusOK, resources(path[1], path[2]))
	default:
		return false
	}
	return true
}

func groups() (list []metav1.APIGroup) {
	for _, k := range kinds {
		if k.group == "" || slices.ContainsFunc(list, func(g metav1.APIGroup) bool { return g.Name == k.group }) {
			continue
		}
		g := metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: k.group}
		for _, version := range versionsOf(k.group) {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: k.group + "/" + version, Version: version})
		}
		g.PreferredVersion = g.Versions[0]
		list = append(list, g)
	}
	return list
}

func versionsOf(group string) (versions []string) {
	for _, k := range kinds {
		for _, version := range k.versions {
			if k.group == group && !slices.Contains(versions, version) {
				versions = append(versions, version)
			}
		}
	}
	return versions
}

func resources(group, version string) metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"}
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group + "/" + version}
	if group == "" {
		list.GroupVersion = version
	}
	for _, k := range kinds {
		if k.group != group || !k.serves(version, "") {
			continue
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.plural, Kind: k.name, Namespaced: k.namespaced, Verbs: verbs})
		if k.serves(version, "status") {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.plural + "/status", Kind: k.name, Namespaced: k.namespaced, Verbs: verbs})
		}
	}
	return list
}
