package resolve

import ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"

// Unmet returns what CREATE does with a claim that cannot be met now: by its own word, else by that of its class. A class of networks
// refuses if it says nothing, and so does a claim for a range: these claims are made by programs that read the answer. Any other has
// the fallback. The class is nil if the claim has none.
func Unmet(claim *ipamv1alpha1.IPClaim, class *ipamv1alpha1.IPClass, fallback ipamv1alpha1.UnmetPolicy) ipamv1alpha1.UnmetPolicy {
	switch {
	case claim.Spec.UnmetPolicy != "":
		return claim.Spec.UnmetPolicy
	case class != nil && class.Spec.UnmetPolicy != "":
		return class.Spec.UnmetPolicy
	case claim.Spec.Target == ipamv1alpha1.TargetScopeRange, class != nil && ofNetworks(class.Spec):
		return ipamv1alpha1.UnmetRefuse
	default:
		return fallback
	}
}

func ofNetworks(class ipamv1alpha1.IPClassSpec) bool {
	return class.ParentClassName != "" || len(class.PoolPer) > 0 || len(class.UniqueWithin) > 0
}
