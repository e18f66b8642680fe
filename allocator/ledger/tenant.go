package ledger

import "strings"

// byNamespace ends the name of a cluster whose namespaces are its tenants. No ID of a logical cluster and no UID has a
// dot.
const byNamespace = ".ns"

// ByNamespace returns the name that a cluster has in the ledger if its namespaces are its tenants.
func ByNamespace(c ClusterName) ClusterName { return c + byNamespace }

// Otherwise returns the name that the cluster would have in a ledger with the other kind of tenants: namespaces instead
// of clusters, or clusters instead of namespaces.
func (c ClusterName) Otherwise() ClusterName {
	if plain := c.Plain(); plain != c {
		return plain
	}
	return ByNamespace(c)
}

// Plain returns the name of a cluster without the mark that its namespaces are its tenants.
func (c ClusterName) Plain() ClusterName {
	return ClusterName(strings.TrimSuffix(string(c), byNamespace))
}

// Tenant returns the tenant to which an object in a namespace of the cluster belongs: the namespace if namespaces are
// the tenants, else the cluster. Limits, turns, address spaces, pools and the names in messages go by it. An object
// without a namespace belongs to the cluster.
func (c ClusterName) Tenant(namespace string) ClusterName {
	if namespace == "" || !strings.HasSuffix(string(c), byNamespace) {
		return c
	}
	return c + "." + ClusterName(namespace)
}

// Tenant returns the tenant to which the holder belongs.
func (h Holder) Tenant() ClusterName { return h.Cluster.Tenant(h.Namespace) }

// Namespace returns the namespace of a tenant; ok is false if the tenant is a cluster.
func (c ClusterName) Namespace() (namespace string, ok bool) {
	_, namespace, ok = strings.Cut(string(c), byNamespace+".")
	return namespace, ok
}

// Cluster returns the cluster of a tenant.
func (c ClusterName) Cluster() ClusterName {
	cluster, _, ok := strings.Cut(string(c), byNamespace+".")
	if !ok {
		return c
	}
	return ClusterName(cluster + byNamespace)
}
