package ledger

import "strings"

// byNamespace ends the name of a cluster whose namespaces are its tenants. No ID of a logical cluster and no UID has a
// dot.
const byNamespace = ".ns"

// ByNamespace returns the name of a cluster, once its namespaces are its tenants.
func ByNamespace(c ClusterName) ClusterName { return c + byNamespace }

// Otherwise returns the name that the cluster has in a ledger of the other tenants: its namespaces, or the cluster
// itself.
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

// Tenant says whose an object in a namespace of the cluster is: the cluster's, or the namespace's where these are the
// tenants. Limits, turns, address spaces, pools and the names in messages go by it. An object without a namespace is
// the cluster's.
func (c ClusterName) Tenant(namespace string) ClusterName {
	if namespace == "" || !strings.HasSuffix(string(c), byNamespace) {
		return c
	}
	return c + "." + ClusterName(namespace)
}

// Tenant says whose the holder is.
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
