package class

import (
	"fmt"
	"math/big"
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/internal/plural"
)

// lengths are prefix lengths from the shortest to the longest.
type lengths struct{ min, max int32 }

// givenBy returns the lengths that a pool can give to claims of a class. ok is false if the pool gives none: it is not
// ready, of the other family, or its lengths and those of the class have none in common.
func givenBy(class *ipamv1alpha1.IPClass, pool *ipamv1alpha1.IPPool) (given lengths, ok bool) {
	cidr, err := netip.ParsePrefix(pool.Status.AllocatedCIDR)
	if err != nil || !facts.AnswerOf(pool).Given() || pool.Status.IPFamily != class.Spec.IPFamily {
		return lengths{}, false
	}
	given.min, given.max = space.Lengths(cidr, pool.Spec)
	if allowed := class.Spec.AllowedPrefixLengths; allowed != nil {
		given = lengths{max(given.min, allowed.Min), min(given.max, allowed.Max)}
	}
	return given, given.min <= given.max
}

// unfitFor says what keeps a pool from serving claims of a class, those of its default length at least; empty if
// nothing does.
func unfitFor(class *ipamv1alpha1.IPClass, pool *ipamv1alpha1.IPPool) string {
	given, ok := givenBy(class, pool)
	length := class.Spec.DefaultPrefixLength
	switch {
	case !facts.AnswerOf(pool).Given():
		return "serves no claim: it is not ready"
	case pool.Status.IPFamily != class.Spec.IPFamily:
		return fmt.Sprintf("serves no claim of this class: it is %s", pool.Status.IPFamily)
	case !ok:
		return fmt.Sprintf("serves no claim of this class: it has no length from %s", facts.ClassLengths(class))
	case length != 0 && (length < given.min || length > given.max):
		return fmt.Sprintf("gives %s, and not the default length of this class, /%d", facts.Lengths(given.min, given.max), length)
	}
	return ""
}

// headRoom adds up what pools could still give to claims of a class.
func headRoom(class *ipamv1alpha1.IPClass, pools []ipamv1alpha1.IPPool) string {
	free, least := new(big.Int), int32(129)
	for i := range pools {
		given, ok := givenBy(class, &pools[i])
		largest := pools[i].Status.LargestFreePrefix
		if !ok || largest == nil || *largest > given.max {
			continue
		}
		if capacity := pools[i].Status.Capacity; capacity != nil {
			if n, ok := new(big.Int).SetString(capacity.Available, 10); ok {
				free.Add(free, n)
			}
		}
		least = min(least, max(*largest, given.min))
	}
	if least > 128 {
		return "nothing is free for claims of this class"
	}
	return fmt.Sprintf("%s free, in blocks of up to /%d", plural.Of(free.String(), "address", "addresses"), least)
}
