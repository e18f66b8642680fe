package sim

import (
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// above names the class whose ranges the ranges of a class lie in. Those of a class that is above none are one for a network; the others are
// one for a network and a cell.
var above = map[string]string{"room": "site", "vsub": "vnet"}

// networkOf names the network of a claim; empty: it has none.
func networkOf(cluster string, claim *ipamv1alpha1.IPClaim) string {
	return networkAt(classes[claim.Spec.ClassName].level, cluster, claim)
}

// networkAt names the network of a level that a claim lies in.
func networkAt(level, cluster string, claim *ipamv1alpha1.IPClaim) string {
	words := []string{level, claim.Spec.Scope["network"].Name}
	if above[level] != "" {
		words = append(words, claim.Spec.Scope["cell"].Name)
	}
	switch network := strings.Join(words, "/"); classes[claim.Spec.ClassName].tenancy {
	case "own":
		return letterOf(cluster) + "/" + network
	case "shared":
		return network
	}
	return ""
}

// networksOf names the network of a claim, and those that it lies in.
func networksOf(cluster string, claim *ipamv1alpha1.IPClaim) (list []string) {
	for level := classes[claim.Spec.ClassName].level; level != ""; level = above[level] {
		list = append(list, networkAt(level, cluster, claim))
	}
	return list
}
