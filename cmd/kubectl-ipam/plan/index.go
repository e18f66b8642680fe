package plan

import "net/netip"

// index finds the pools of a plan.
type index struct {
	pools  []Pool
	blocks []netip.Prefix
	byName map[string]int
}

// index leaves out the pools whose CIDR is none: that is a problem by itself.
func (p *Plan) index() index {
	found := index{byName: map[string]int{}}
	for _, pool := range p.Pools {
		block, err := ParseBlock(string(pool.Spec.CIDR))
		if err != nil {
			continue
		}
		if _, ok := found.byName[pool.Name]; !ok {
			found.byName[pool.Name] = len(found.pools)
		}
		found.pools, found.blocks = append(found.pools, pool), append(found.blocks, block)
	}
	return found
}

// find returns the pool of that name; without a name, the smallest that contains a block.
func (x index) find(name string, block netip.Prefix) (_ Pool, ok bool) {
	if name != "" {
		at, ok := x.byName[name]
		if !ok {
			return Pool{}, false
		}
		return x.pools[at], true
	}
	best := -1
	for i, pool := range x.blocks {
		if contains(pool, block) && (best < 0 || pool.Bits() > x.blocks[best].Bits()) {
			best = i
		}
	}
	if best < 0 {
		return Pool{}, false
	}
	return x.pools[best], true
}

// contains reports whether all addresses of a block are in another one.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
