package main

import (
	"fmt"
	"math/big"
	"net/netip"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The states of an address.
const (
	stateAllocated = "allocated"
	stateRetained  = "retained"
	stateReserved  = "reserved"
	stateExcluded  = "excluded"
	stateFree      = "free"
	stateUnseen    = "free, or allocated to another workspace,"
	stateCooling   = "free, or cooling,"
	stateEither    = "free, cooling, or allocated to another workspace,"
)

// addressState is what one pool makes of a block, or of its own part of it.
type addressState struct {
	block               netip.Prefix
	word, pool, because string
}

func (s addressState) String() string {
	said := fmt.Sprintf("%s is %s in pool %s", s.block, s.word, s.pool)
	if s.because == "" {
		return said
	}
	return said + ": " + s.because
}

// stateOf is the state of a block that has an allocation.
func stateOf(a *ipamv1alpha1.IPAllocation) string {
	if a.Spec.ClaimRef == nil {
		return stateRetained
	}
	return stateAllocated
}

// statesOf asks every visible pool that has some of a block. A child pool that has all of it
// answers for its parent.
func statesOf(r *reach, block netip.Prefix, pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []addressState {
	var found []addressState
	for i := range pools {
		p := &pools[i]
		cidr, err := netip.ParsePrefix(p.Status.AllocatedCIDR)
		if err != nil || !cidr.Overlaps(block) {
			continue
		}
		part := block
		if cidr.Bits() > block.Bits() {
			part = cidr
		}
		held := r.holdings(r.workspace(p), p.Name, pools, allocations)
		state, ok := stateIn(p, cidr, part, held)
		if !ok {
			continue
		}
		state.block = part
		state.pool = fmt.Sprintf("%s (%s)", inWorkspace(p.Name, r.workspace(p)), cidr)
		found = append(found, state)
	}
	return found
}

// stateIn is the state of a block in a pool, of which these holdings are visible; ok is false if
// a child pool has all of the block.
func stateIn(pool *ipamv1alpha1.IPPool, cidr, block netip.Prefix, held []holding) (_ addressState, ok bool) {
	shown := space{pool: cidr, kept: keptBack(cidr, pool.Spec)}
	for _, h := range held {
		if h.block.Overlaps(block) {
			within := h.block.Contains(block.Addr()) && h.block.Bits() <= block.Bits()
			return addressState{word: stateAllocated, because: fmt.Sprintf("%s holds %s", h.holder, h.block)}, !within
		}
		shown.taken = append(shown.taken, h.block)
	}
	if at, found := firstOverlap(excludedOf(pool.Spec), block); found {
		return addressState{word: stateExcluded, because: fmt.Sprintf("spec.excludedCIDRs of the pool has %s", at)}, true
	}
	if at, found := firstOverlap(edgesOf(cidr, pool.Spec), block); found {
		return addressState{word: stateReserved, because: fmt.Sprintf("spec.reservations of the pool covers %s", at)}, true
	}
	if pool.Status.Capacity == nil {
		return addressState{word: stateUnseen, because: "the pool shows no figures yet"}, true
	}
	return stateUnheld(pool, shown), true
}

// stateUnheld is the state of a block that nobody is seen to hold.
func stateUnheld(pool *ipamv1alpha1.IPPool, shown space) addressState {
	if _, ok := new(big.Int).SetString(pool.Status.Capacity.Allocated, 10); !ok {
		return addressState{word: stateUnseen, because: "the pool's figures cannot be read"}
	}
	hidden, cooling := shown.unseen(pool.Status.Capacity), coolingOf(pool.Status.Capacity).Sign() > 0
	others := fmt.Sprintf("others hold %s addresses of the pool, which are not shown to you", hidden)
	switch {
	case cooling && hidden.Sign() > 0:
		return addressState{word: stateEither, because: others + "; " + coolsUntil(pool)}
	case cooling:
		return addressState{word: stateCooling, because: coolsUntil(pool)}
	case hidden.Sign() > 0:
		return addressState{word: stateUnseen, because: others}
	}
	return addressState{word: stateFree}
}

// firstOverlap is the first of the prefixes that overlaps a block.
func firstOverlap(prefixes []netip.Prefix, block netip.Prefix) (netip.Prefix, bool) {
	for _, p := range prefixes {
		if p.Overlaps(block) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}
