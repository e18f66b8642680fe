package sim

import (
	"strings"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// above maps a range class to the class whose ranges contain its ranges. A class with a key here has one range for
// each network and cell, and every other range class has one for each network.
var above = map[string]string{"room": "site", "vsub": "vnet"}

// networkOf names the network of a claim; empty: it has none.
func networkOf(cluster string, claim *ipamv1alpha1.IPClaim) string {
	return networkAt(classes[claim.Spec.ClassName].level, cluster, claim)
}

// networkAt names the network of a level in which a claim lies; empty: there is none.
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

// networksOf names the network of a claim, and all networks in which that lies.
func networksOf(cluster string, claim *ipamv1alpha1.IPClaim) (list []string) {
	for level := classes[claim.Spec.ClassName].level; level != ""; level = above[level] {
		list = append(list, networkAt(level, cluster, claim))
	}
	return list
}
