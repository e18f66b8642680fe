package resolve

import ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"

// Unmet returns what CREATE does with a claim that cannot be met now: by its own word, else by that of its class. A class of networks
// refuses if it says nothing: its claims are made by programs that read the answer. Any other has the fallback. The class is nil if
// the claim has none.
func Unmet(claim *ipamv1alpha1.IPClaim, class *ipamv1alpha1.IPClass, fallback ipamv1alpha1.UnmetPolicy) ipamv1alpha1.UnmetPolicy {
	switch {
	case claim.Spec.UnmetPolicy != "":
		return claim.Spec.UnmetPolicy
	case class == nil:
		return fallback
	case class.Spec.UnmetPolicy != "":
		return class.Spec.UnmetPolicy
	case class.Spec.ParentClassName != "" || len(class.Spec.PoolPer) > 0 || len(class.Spec.UniqueWithin) > 0:
		return ipamv1alpha1.UnmetRefuse
	default:
		return fallback
	}
}
