package v1alpha1

import (
	"cmp"
	"net/netip"

	"go4.org/netipx"
)

// The words for what a pool with a gateway withholds.
const (
	WithheldGateway   = "gateway"
	WithheldNetwork   = "network address"
	WithheldBroadcast = "broadcast address"
)

// Withheld is an address that a pool never hands out, because it has a gateway.
//
// +kubebuilder:object:generate=false
type Withheld struct {
	Address netip.Addr
	As      string // one of the words above
}

// Withheld lists the addresses of a pool that are never handed out because of its gateway: the
// gateway itself, and the network and broadcast address of an IPv4 network that has them, as far as
// they are in the pool. The network is that of networkPrefixLength around the pool, or the pool.
// It is empty without a gateway, and for one that is outside of the pool.
func (s IPPoolSpec) Withheld(pool netip.Prefix) []Withheld {
	gateway, err := netip.ParseAddr(s.Gateway)
	if err != nil || !pool.Contains(gateway) {
		return nil
	}
	list := []Withheld{{gateway, WithheldGateway}}
	network := s.Network(pool)
	if !network.Addr().Is4() || network.Bits() > 30 { // RFC 3021: a /31 has neither
		return list
	}
	for _, edge := range []Withheld{{network.Addr(), WithheldNetwork}, {netipx.PrefixLastIP(network), WithheldBroadcast}} {
		if pool.Contains(edge.Address) && edge.Address != gateway {
			list = append(list, edge)
		}
	}
	return list
}

// Network is the network that the addresses of a pool are in, as interfaces are configured.
func (s IPPoolSpec) Network(pool netip.Prefix) netip.Prefix {
	length := min(cmp.Or(int(s.NetworkPrefixLength), pool.Bits()), pool.Bits())
	return netip.PrefixFrom(pool.Addr(), length).Masked()
}
