package v1alpha1

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// The words for what a pool with a gateway withholds.
const (
	WithheldGateway   = "gateway"
	WithheldNetwork   = "network address"
	WithheldBroadcast = "broadcast address"
	WithheldAnycast   = "subnet-router anycast address"
)

// Withheld is an address that a pool never hands out, because it has a gateway.
//
// +kubebuilder:object:generate=false
type Withheld struct {
	Address netip.Addr
	As      string // one of the words above
}

// Withheld lists the addresses of a pool that are never handed out because of its gateway: the
// gateway itself, and of its network what no interface can have, as far as they are in the pool: the
// network and broadcast address of IPv4, the subnet-router anycast address of IPv6. It is empty
// without a gateway, and for one that [IPPoolSpec.Router] refuses.
func (s IPPoolSpec) Withheld(pool netip.Prefix) []Withheld {
	gateway, err := s.Router(pool)
	if err != nil || !gateway.IsValid() {
		return nil
	}
	list := []Withheld{{gateway, WithheldGateway}}
	network := s.Network(pool)
	switch {
	case network.Bits() >= network.Addr().BitLen()-1: // RFC 3021, RFC 6164: a link of two has no such addresses
	case network.Addr().Is4():
		list = append(list, Withheld{network.Addr(), WithheldNetwork},
			Withheld{netipx.PrefixLastIP(network), WithheldBroadcast})
	case network.Addr() != gateway:
		list = append(list, Withheld{network.Addr(), WithheldAnycast}) // RFC 4291, section 2.6.1
	}
	return slices.DeleteFunc(list, func(w Withheld) bool { return !pool.Contains(w.Address) })
}

// Router is the gateway as interfaces in the pool are configured with it: an address of the pool's
// network, inside or outside of the pool. It is the zero Addr for a pool without a gateway. The error says
// what is wrong with one that no interface could use.
func (s IPPoolSpec) Router(pool netip.Prefix) (netip.Addr, error) {
	if s.Gateway == "" {
		return netip.Addr{}, nil
	}
	network := s.Network(pool)
	gateway, err := netip.ParseAddr(s.Gateway)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("spec.gateway: %w", err)
	case !network.Contains(gateway):
		return netip.Addr{}, fmt.Errorf("spec.gateway %s is not in the network of the pool, %s: "+
			"correct it, or give the length of the network in spec.networkPrefixLength", gateway, network)
	case gateway.Is4() && network.Bits() < 31 && (gateway == network.Addr() || gateway == netipx.PrefixLastIP(network)):
		return netip.Addr{}, fmt.Errorf("spec.gateway %s is the network or broadcast address of %s: "+
			"write the address of the router", gateway, network)
	}
	return gateway, nil
}

// Network is the network that the addresses of a pool are in, as interfaces are configured.
func (s IPPoolSpec) Network(pool netip.Prefix) netip.Prefix {
	length := min(cmp.Or(int(s.NetworkPrefixLength), pool.Bits()), pool.Bits())
	return netip.PrefixFrom(pool.Addr(), length).Masked()
}
