package main

import (
	"errors"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kcp-ipam/ipam/controllers/capi"
)

// The manifests have what clusterctl asks of a provider: one namespace, a Deployment whose container is called manager,
// and the label of the provider on every object.
func TestComponents_FitClusterctl(t *testing.T) {
	objects := overlaid(t, "../../capi")
	one[*corev1.Namespace](t, objects)
	w := workloadOf(t, "../../capi")
	if got := w.pod.Spec.Containers; len(got) != 1 || got[0].Name != "manager" {
		t.Errorf("the containers are %+v; want one called manager", got)
	}
	for _, object := range objects {
		if meta := object.(metav1.Object); meta.GetLabels()["cluster.x-k8s.io/provider"] != "ipam-kcp-ipam" {
			t.Errorf("%T %s has the labels %v; want that of the provider", object, meta.GetName(), meta.GetLabels())
		}
	}
	opts := parsed(t, w)
	if !opts.capi || !opts.standalone {
		t.Errorf("--capi is %t and --standalone %t; want both", opts.capi, opts.standalone)
	}
	claimed := one[*corev1.PersistentVolumeClaim](t, objects).Name
	volumes := w.pod.Spec.Volumes
	if got := volumes[len(volumes)-1].PersistentVolumeClaim; got == nil || got.ClaimName != claimed {
		t.Errorf("the ledger is on %+v; want %s", got, claimed)
	}
}

// clusterctl move takes pools and classes along. It leaves claims and allocations, which would be made again with other
// addresses.
func TestComponents_MoveOnlyPoolsAndClasses(t *testing.T) {
	objects := overlaid(t, "../../capi")
	moved := map[string]bool{"IPPool": true, "IPClass": true}
	for _, crd := range all[*apiextensionsv1.CustomResourceDefinition](objects) {
		_, got := crd.Labels["clusterctl.cluster.x-k8s.io/move"]
		if kind := crd.Spec.Names.Kind; got != moved[kind] || crd.Labels["cluster.x-k8s.io/v1beta2"] != "v1alpha1" {
			t.Errorf("%s has the labels %v; want the contract's, and that it is moved to be %t", kind, crd.Labels, moved[kind])
		}
	}
	bound := false
	for _, binding := range all[*rbacv1.ClusterRoleBinding](objects) {
		bound = bound || binding.RoleRef.Name == "ipam-controller-capi" && binding.Subjects[0].Name == "ipam-controller"
	}
	if !bound {
		t.Error("the controller has no rights on the kinds of Cluster API")
	}
}

// The manifests for pools in a workspace run the command capi, with a lease and without webhooks.
func TestComponents_RunCapiForAWorkspace(t *testing.T) {
	objects := overlaid(t, "../../capi/workspace")
	w := workloadOf(t, "../../capi/workspace")
	args := w.pod.Spec.Containers[0].Args
	c := &clusterAPI{options: defaults(), namespace: "default"}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.addFlags(flags)
	if err := errors.Join(flags.Parse(args[1:]), c.validate()); err != nil || args[0] != "capi" {
		t.Errorf("the arguments %q are refused: %v", args, err)
	}
	if w.replicas > 1 && !c.election.on {
		t.Errorf("%d replicas run without a lease", w.replicas)
	}
	if got := one[*corev1.Service](t, objects); len(got.Spec.Ports) != 1 || got.Spec.Ports[0].Name != "metrics" {
		t.Errorf("the Service has the ports %+v; want that of the metrics", got.Spec.Ports)
	}
	one[*rbacv1.ClusterRoleBinding](t, objects)
}

// Controllers that serve different claims of a management cluster have different leases, so that none waits for
// another.
func TestClusterAPI_HasALeaseForEachScope(t *testing.T) {
	of := map[string]capi.Scope{}
	for _, scope := range []capi.Scope{{}, {Namespace: "edge"}, {Filter: "edge"}, {Filter: "Edge_1"}, {Namespace: "edge", Filter: "edge"}} {
		name := (&clusterAPI{scope: scope}).leaseName()
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("the lease for %+v is %q: %v", scope, name, errs)
		}
		if other, taken := of[name]; taken {
			t.Errorf("the lease for %+v and for %+v is %q", scope, other, name)
		}
		of[name] = scope
	}
	if _, found := of["ipam-controller-capi"]; !found {
		t.Errorf("without a scope the lease is none of %v; want ipam-controller-capi, as before", of)
	}
}
