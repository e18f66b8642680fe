package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// view is all that a workspace shows: the content of each object, by version, resource, namespace and name.
type view map[string]map[string]any

// viewer reads a workspace as its owner, who has every right in it.
type viewer struct {
	tenant    *framework.Tenant
	discovery discovery.DiscoveryInterface
	objects   dynamic.Interface
	c         client.Client // whose warnings are in heard
	heard     *warnings
}

func newViewer(t *testing.T, tenant *framework.Tenant) *viewer {
	t.Helper()
	cfg, heard := tenant.OwnerConfig(t), &warnings{}
	warned := rest.CopyConfig(cfg)
	warned.WarningHandler = heard
	return &viewer{
		tenant: tenant, heard: heard, c: must.Get(client.New(warned, client.Options{Scheme: tenant.Scheme()}))(t),
		discovery: must.Get(discovery.NewDiscoveryClientForConfig(cfg))(t), objects: must.Get(dynamic.NewForConfig(cfg))(t),
	}
}

// read lists every resource that the workspace serves, in each of its versions.
func (v *viewer) read(ctx context.Context) (view, error) {
	_, served, err := v.discovery.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	seen := view{}
	for _, group := range served {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range group.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			list, err := v.objects.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s of %s: %w", resource.Name, version, err)
			}
			for _, object := range list.Items {
				if resource.Name == "logicalclusters" {
					withoutBindings(&object)
				}
				seen[strings.Join([]string{version.String(), resource.Name, object.GetNamespace(), object.GetName()}, " ")] = object.Object
			}
		}
	}
	return seen, nil
}

// withoutBindings removes from a LogicalCluster when kcp last checked that the bindings exist which the workspace's
// type demands. kcp checks that when any APIExport or WorkspaceType changes, even minutes after the workspace was
// made.
func withoutBindings(cluster *unstructured.Unstructured) {
	cluster.SetResourceVersion("")
	cluster.SetManagedFields(nil)
	conditions, _, _ := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	conditions = slices.DeleteFunc(conditions, func(condition any) bool {
		return condition.(map[string]any)["type"] == string(tenancyv1alpha1.WorkspaceAPIBindingsReconciled)
	})
	_ = unstructured.SetNestedSlice(cluster.Object, conditions, "status", "conditions")
}

// settled reads the workspace until nothing in it has changed for two seconds.
func (v *viewer) settled(t *testing.T) view {
	t.Helper()
	var last view
	var since time.Time
	framework.Eventually(t, "workspace "+v.tenant.Path+" to stay as it is", func(ctx context.Context) error {
		now, err := v.read(ctx)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(last, now); diff != "" {
			last, since = now, time.Now()
			return errors.New(diff)
		}
		if time.Since(since) < 2*time.Second {
			return errors.New("it has changed a moment ago")
		}
		return nil
	})
	return last
}

// of returns the objects of a resource, in all versions.
func (v view) of(resource string) []*unstructured.Unstructured {
	var found []*unstructured.Unstructured
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if strings.Fields(key)[1] == resource {
			found = append(found, &unstructured.Unstructured{Object: v[key]})
		}
	}
	return found
}

// secrets returns what identifies the objects of a workspace: name and ID of the workspace, the objects' UIDs, and
// the workspace's addresses. The tenant's word is in the path and in all names that it gives.
func (v *viewer) secrets(t *testing.T, word string) []*regexp.Regexp {
	t.Helper()
	seen := v.settled(t)
	found := []*regexp.Regexp{regexp.MustCompile(word), regexp.MustCompile(string(v.tenant.Cluster))}
	exactly := func(text string) {
		if text != "" {
			found = append(found, regexp.MustCompile(`(^|[^0-9A-Za-z.:])`+regexp.QuoteMeta(text)+`([^0-9A-Za-z/]|$)`))
		}
	}
	for _, resource := range []string{"namespaces", "ippools", "ipclaims", "ipallocations"} {
		for _, object := range seen.of(resource) {
			exactly(string(object.GetUID()))
		}
	}
	for _, record := range seen.of("ipallocations") {
		if _, spaced, _ := unstructured.NestedMap(record.Object, "spec", "scope"); spaced {
			continue // others may have the same address, in an address space of their own
		}
		for _, field := range []string{"allocatedCIDR", "address"} {
			text, _, _ := unstructured.NestedString(record.Object, "status", field)
			exactly(text)
		}
	}
	return found
}

// tellsNothing fails the test if a text contains one of these secrets.
func tellsNothing(t *testing.T, where string, text any, secrets []*regexp.Regexp) {
	t.Helper()
	data := must.Get(json.Marshal(text))(t)
	for _, secret := range secrets {
		if at := secret.FindIndex(data); at != nil {
			t.Errorf("%s tells %q of another workspace: …%s…", where, secret, data[max(0, at[0]-80):min(len(data), at[1]+80)])
		}
	}
}
