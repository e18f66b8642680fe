package derived

import (
	"strings"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// overlaps makes the pool of a network, in an address space of its own in the root pool, and the pool of a subnet below
// it.
func (s *scene) overlaps(name string, by ...ledger.Holder) (network, subnet, space ledger.Pool) {
	s.Helper()
	scope := ledger.Scope{"network": {APIGroup: "net.example", Kind: "Network", Name: name}}
	space = s.spaceFor("root", scope)
	network = s.network("net", name, space.ID, 24, by...)
	return network, s.network("sub", name, network.ID, 28), space
}

// The IPPool of a network with its own address space names the root pool as parent, and not the address space.
func TestPublish_NamesTheRootPoolAboveAnOverlappingNetwork(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"red", "blue"} {
		network, _, _ := s.overlaps(name)
		if parent := s.object(network).Spec.ParentPoolRef; parent.Name != "root" || parent.ProjectRef.Name != "root:ipam" {
			t.Errorf("network %s is below %+v, want the root pool", name, parent)
		}
	}
}

// A range is kept by the claims inside it, and not by those inside another range of the same CIDR.
func TestCloseRange_IgnoresClaimsInAnOverlappingNetwork(t *testing.T) {
	s := newScene(t)
	red, blue := gen.Claim("red", gen.OfClass("net")), gen.Claim("blue", gen.OfClass("net"))
	testbed.Create(t, s.workspace, red)
	testbed.Create(t, s.workspace, blue)
	network, subnet, space := s.overlaps("red", holderOf(red))
	other, inOther, _ := s.overlaps("blue", holderOf(blue))
	guest := s.bind(inOther, "guest")
	if inside := s.closes(blue, false); !strings.Contains(inside, "claim default/guest") {
		t.Errorf("the DELETE of the range with a claim inside says %q, want the claim", inside)
	}
	s.mustClose(red)
	s.deletes(red)
	if s.wantComplete(network); s.known(network) || s.known(subnet) || s.object(network) != nil || !s.known(other) {
		t.Errorf("the range is known: %t, its subnet: %t, the other: %t; want the other alone", s.known(network), s.known(subnet), s.known(other))
	}
	s.deletes(guest)
	s.mustClose(blue)
	s.deletes(blue)
	s.wantComplete(other)
	s.wantGone(space)
	if s.alloc.Pools().InUse("root") {
		t.Error("the root pool is in use, and no network is left")
	}
}

// An idle network is retired from below, its subnet first, and its address space goes with it.
func TestSweep_RetiresAnIdleNetworkWithItsAddressSpace(t *testing.T) {
	s := newScene(t)
	network, subnet, space := s.overlaps("red")
	guest := s.bind(subnet, "guest")
	if s.idles(DefaultIdle); !s.known(network) || !s.known(space) {
		t.Fatal("a network in use was retired")
	}
	s.deletes(guest)
	must.Do(t, s.alloc.Release(t.Context(), ledger.ClaimID(guest.UID)))
	for range 3 { // each level by itself
		s.idles(DefaultIdle + time.Second)
	}
	for _, p := range []ledger.Pool{subnet, network, space} {
		s.wantGone(p)
	}
}
