package check

import (
	"context"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// machines are what the caller sees of Cluster API in a management cluster.
type machines struct {
	// lacking are the kinds of the contract that are not served.
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

// readMachines reads what a cluster has of Cluster API; nothing where that is not installed.
func (i *installation) readMachines(ctx context.Context, asked discovery.DiscoveryInterface, c client.Client) {
	groups, err := asked.ServerGroups()
	if err != nil || !slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == capiv1.GroupVersion.Group }) {
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
			if err != nil || !slices.ContainsFunc(served.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
				i.machines.lacking = append(i.machines.lacking, name+"."+version.Group+"/"+version.Version)
			}
		}
	}
	slices.Sort(i.machines.lacking)
	if len(i.machines.lacking) == 0 {
		i.machines.readClaims(ctx, c, i.namespace)
	}
}

// readClaims reads the claims and the Clusters of all namespaces, or of the current one if the caller sees no
// others.
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

// judgeMachines says which IPAddressClaims need attention. That is a warning: a user who claims here does
// not need Cluster API.
func (i *installation) judgeMachines() finished {
	m := i.machines
	switch {
	case len(m.lacking) > 0:
		return finished{Result: checkWarning, Found: strings.Join(m.lacking, ", ") + " are not served, so machines get no addresses",
			Remedy: "use Cluster API v1.11 or later"}
	case m.claimsErr != nil:
		return i.unread("IPAddressClaims", m.claimsErr)
	}
	return m.judge()
}
