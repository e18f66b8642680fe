package simkcp

import (
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// discover answers a GET of groups, versions or resources; nil: the path is of something else.
func discover(path []string) *http.Response {
	switch {
	case len(path) == 1 && path[0] == "api":
		return answer(http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
	case len(path) == 1 && path[0] == "apis":
		return answer(http.StatusOK, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups()})
	case len(path) == 2 && path[0] == "api":
		return answer(http.StatusOK, resources("", path[1]))
	case len(path) == 3 && path[0] == "apis":
		return answer(http.StatusOK, resources(path[1], path[2]))
	case len(path) == 2 && path[0] == "apis":
		for _, g := range groups() {
			if g.Name == path[1] {
				return answer(http.StatusOK, g)
			}
		}
	}
	return nil
}

// resources returns the resources of a version.
func resources(group, version string) metav1.APIResourceList {
	verbs := metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete"}
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: kind{group: group}.apiVersion(version),
	}
	for _, k := range kinds {
		if k.group != group || !k.serves(version, "") {
			continue
		}
		resource := metav1.APIResource{Name: k.plural, Kind: k.name, Namespaced: k.namespaced, Verbs: verbs}
		list.APIResources = append(list.APIResources, resource)
		if k.serves(version, "status") {
			resource.Name += "/status"
			list.APIResources = append(list.APIResources, resource)
		}
	}
	return list
}

// groups returns all groups but the core.
func groups() (list []metav1.APIGroup) {
	for _, k := range kinds {
		if k.group == "" {
			continue
		}
		at := slices.IndexFunc(list, func(g metav1.APIGroup) bool { return g.Name == k.group })
		if at < 0 {
			at = len(list)
			list = append(list, metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: k.group})
		}
		for _, v := range k.versions {
			version := metav1.GroupVersionForDiscovery{GroupVersion: k.group + "/" + v, Version: v}
			if !slices.Contains(list[at].Versions, version) {
				list[at].Versions = append(list[at].Versions, version)
			}
		}
		list[at].PreferredVersion = list[at].Versions[0]
	}
	return list
}
