package plan

import "net/netip"

// index finds the pools of a plan.
type index struct {
	pools   []Pool
	byBlock map[netip.Prefix]int
	byName  map[string]int
}

// index leaves out the pools whose CIDR is none: that is a problem by itself. Of two pools of one
// CIDR or name it finds the first.
func (p *Plan) index() index {
	found := index{byBlock: map[netip.Prefix]int{}, byName: map[string]int{}}
	for _, pool := range p.Pools {
		block, err := ParseBlock(string(pool.Spec.CIDR))
		if err != nil {
			continue
		}
		if _, ok := found.byName[pool.Name]; !ok {
			found.byName[pool.Name] = len(found.pools)
		}
		if _, ok := found.byBlock[block]; !ok {
			found.byBlock[block] = len(found.pools)
		}
		found.pools = append(found.pools, pool)
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
	for bits := block.Bits(); bits >= 0; bits-- {
		if at, ok := x.byBlock[netip.PrefixFrom(block.Addr(), bits).Masked()]; ok {
			return x.pools[at], true
		}
	}
	return Pool{}, false
}

// contains reports whether all addresses of a block are in another one.
func contains(outer, inner netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}
