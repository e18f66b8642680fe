package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// machines are the objects of Cluster API in a management cluster, as the caller sees them.
type machines struct {
	// lacking are the kinds of the contract that the server lacks.
	lacking []string
	// claims are the IPAddressClaims for IPPools and IPClasses.
	claims    []capiv1.IPAddressClaim
	claimsErr error
	// clusters are the Clusters, by their keys; nil if they cannot be read.
	clusters map[client.ObjectKey]*clusterv1.Cluster
}

// contract are the kinds that a provider reads and writes.
var contract = map[schema.GroupVersion][]string{
	capiv1.GroupVersion:    {"ipaddressclaims", "ipaddresses"},
	clusterv1.GroupVersion: {"clusters"},
}

// readMachines reads the objects of Cluster API in a cluster. It reads nothing if Cluster API is not installed.
func (i *installation) readMachines(ctx context.Context, asked discovery.DiscoveryInterface, c client.Client) {
	groups, err := asked.ServerGroups()
	ours := func(g metav1.APIGroup) bool { return g.Name == capiv1.GroupVersion.Group }
	if err != nil || !slices.ContainsFunc(groups.Groups, ours) {
		return
	}
	i.machines = &machines{}
	for version, resources := range contract {
		served, err := asked.ServerResourcesForGroupVersion(version.String())
		if err != nil && !apierrors.IsNotFound(err) {
			i.machines.claimsErr = err
			return
		}
		for _, name := range resources {
			named := func(r metav1.APIResource) bool { return r.Name == name }
			if err != nil || !slices.ContainsFunc(served.APIResources, named) {
				i.machines.lacking = append(i.machines.lacking, name+"."+version.Group+"/"+version.Version)
			}
		}
	}
	slices.Sort(i.machines.lacking)
	if len(i.machines.lacking) == 0 {
		i.machines.readClaims(ctx, c, i.namespace)
	}
}

// readClaims reads the claims and Clusters of all namespaces. If the caller may not, it reads those of the current
// namespace.
func (m *machines) readClaims(ctx context.Context, c client.Client, namespace string) {
	list, clusters := &capiv1.IPAddressClaimList{}, &clusterv1.ClusterList{}
	read := func(list client.ObjectList) error {
		err := c.List(ctx, list)
		if apierrors.IsForbidden(err) {
			err = c.List(ctx, list, client.InNamespace(namespace))
		}
		return err
	}
	m.claimsErr = read(list)
	if read(clusters) == nil {
		m.clusters = map[client.ObjectKey]*clusterv1.Cluster{}
		for i := range clusters.Items {
			m.clusters[client.ObjectKeyFromObject(&clusters.Items[i])] = &clusters.Items[i]
		}
	}
	m.claims = slices.DeleteFunc(list.Items, func(claim capiv1.IPAddressClaim) bool {
		return claim.Spec.PoolRef.APIGroup != ipamv1alpha1.GroupName
	})
}

// judgeMachines says which IPAddressClaims need attention. They are only a warning, because users who claim here need
// no Cluster API.
func (i *installation) judgeMachines() finished {
	m := i.machines
	switch {
	case len(m.lacking) > 0:
		return warned(strings.Join(m.lacking, ", ")+" are not served, so machines get no addresses",
			"use Cluster API v1.11 or later")
	case m.claimsErr != nil:
		return i.unread("IPAddressClaims", m.claimsErr)
	}
	return m.judge()
}

// unpause is the remedy for a paused claim, which neither gets an address nor gives one back.
const unpause = "end the pause, by spec.paused or the annotation " + clusterv1.PausedAnnotation

// plight is why an IPAddressClaim needs attention.
type plight struct {
	// state names the cause. Claims with the same cause are counted together.
	state string
	// detail says what this claim shows; empty if state says it all.
	detail string
	remedy string
}

// judge counts the claims, with one example of each plight.
func (m *machines) judge() finished {
	var order []plight
	found := map[string][]capiv1.IPAddressClaim{}
	served, leaving, needy := 0, 0, 0
	for _, claim := range m.claims {
		p, ok := m.plight(&claim)
		switch {
		case ok:
			if found[p.state] == nil {
				order = append(order, p)
			}
			found[p.state] = append(found[p.state], claim)
			needy++
		case claim.DeletionTimestamp != nil:
			leaving++
		default:
			served++
		}
	}
	if needy == 0 {
		done := passed("%d IPAddressClaims for IPPools and IPClasses have their addresses", served)
		if leaving > 0 {
			done.Found += fmt.Sprintf("; %d are being deleted", leaving)
		}
		return done
	}
	slices.SortStableFunc(order, func(a, b plight) int { return cmp.Compare(len(found[b.state]), len(found[a.state])) })
	var says, remedies []string
	for _, p := range order {
		first := found[p.state][0]
		what := fmt.Sprintf("%d %s, the first is %s/%s", len(found[p.state]), p.state, first.Namespace, first.Name)
		if p.detail != "" {
			what += ": " + p.detail
		}
		says = append(says, what)
		if !slices.Contains(remedies, p.remedy) {
			remedies = append(remedies, p.remedy)
		}
	}
	what := fmt.Sprintf("%d of %d IPAddressClaims need attention: %s", needy, len(m.claims), strings.Join(says, "; "))
	return warned(what, strings.Join(remedies, "; "))
}

// plight returns why a claim needs attention, judged in the order of the controller; false if it needs none.
func (m *machines) plight(claim *capiv1.IPAddressClaim) (plight, bool) {
	ready := meta.FindStatusCondition(claim.Status.Conditions, capiv1.IPAddressClaimReadyCondition)
	served := ready != nil && ready.Status == metav1.ConditionTrue
	deleted := claim.DeletionTimestamp != nil
	holder, key := m.pausedBy(claim), client.ObjectKey{Namespace: claim.Namespace, Name: clusterName(claim)}
	switch {
	case holder != "" && deleted:
		return plight{"deleted while paused", holder + " is paused", unpause}, true
	case served || deleted:
		return plight{}, false
	case holder != "":
		return plight{"paused without an address", holder + " is paused", unpause}, true
	case m.clusters != nil && key.Name != "" && m.clusters[key] == nil:
		return plight{"without their Cluster", "Cluster " + clusterName(claim) + " does not exist",
			"create the Cluster, or delete the claim"}, true
	case ready == nil:
		return plight{"not answered", "",
			"see that ipam-controller runs with --capi, or as ipam-controller capi, and that the pool is not paused"}, true
	}
	return plight{ready.Reason, ready.Message, "end what the message names; the address then follows"}, true
}

// pausedBy returns the object whose pause also pauses a claim; empty if there is none, or if it cannot be read.
func (m *machines) pausedBy(claim *capiv1.IPAddressClaim) string {
	if annotated(claim) {
		return "the claim"
	}
	cluster := m.clusters[client.ObjectKey{Namespace: claim.Namespace, Name: clusterName(claim)}]
	if cluster == nil || !ptr.Deref(cluster.Spec.Paused, false) && !annotated(cluster) {
		return ""
	}
	return "Cluster " + cluster.Name
}

func annotated(object metav1.Object) bool {
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// clusterName returns the name of the Cluster of a claim. Older providers use the label, which is deprecated.
func clusterName(claim *capiv1.IPAddressClaim) string {
	return cmp.Or(claim.Spec.ClusterName, claim.Labels[clusterv1.ClusterNameLabel])
}
