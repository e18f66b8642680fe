package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unpause is the remedy for a paused claim, which neither gets an address nor gives one back.
const unpause = "end the pause, by spec.paused or the annotation " + clusterv1.PausedAnnotation

// plight is why an IPAddressClaim needs attention.
type plight struct {
	// state has the claims of one cause together.
	state string
	// detail is what the claim itself says; empty if the state says it all.
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
	return finished{Result: checkWarning, Remedy: strings.Join(remedies, "; "),
		Found: fmt.Sprintf("%d of %d IPAddressClaims need attention: %s", needy, len(m.claims), strings.Join(says, "; "))}
}

// plight is why a claim needs attention, by the order in which the controller asks; false if it needs nothing.
func (m *machines) plight(claim *capiv1.IPAddressClaim) (plight, bool) {
	ready := meta.FindStatusCondition(claim.Status.Conditions, capiv1.IPAddressClaimReadyCondition)
	served := ready != nil && ready.Status == metav1.ConditionTrue
	deleted := claim.DeletionTimestamp != nil
	holder := m.pausedBy(claim)
	switch {
	case holder != "" && deleted:
		return plight{"deleted while paused", holder + " is paused", unpause}, true
	case served || deleted:
		return plight{}, false
	case holder != "":
		return plight{"paused without an address", holder + " is paused", unpause}, true
	case m.clusterMissing(claim):
		return plight{"without their Cluster", "Cluster " + clusterName(claim) + " does not exist", "create the Cluster, or delete the claim"}, true
	case ready == nil:
		return plight{"not answered", "", "see that ipam-controller runs with --capi, or as ipam-controller capi, and that the pool is not paused"}, true
	}
	return plight{ready.Reason, ready.Message, "end what the message names; the address then follows"}, true
}

// pausedBy is the object whose pause a claim follows; empty if there is none, or if it cannot be read.
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

// clusterMissing reports whether a claim waits for a Cluster that is not there.
func (m *machines) clusterMissing(claim *capiv1.IPAddressClaim) bool {
	key := client.ObjectKey{Namespace: claim.Namespace, Name: clusterName(claim)}
	return m.clusters != nil && key.Name != "" && m.clusters[key] == nil
}

func annotated(object metav1.Object) bool {
	_, paused := object.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

// clusterName is the name of the Cluster of a claim. The label is deprecated, and used by older providers.
func clusterName(claim *capiv1.IPAddressClaim) string {
	return cmp.Or(claim.Spec.ClusterName, claim.Labels[clusterv1.ClusterNameLabel])
}
