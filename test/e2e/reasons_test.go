package e2e

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim that cannot be met says why, and binds by itself when the cause is gone.
// Each row arranges what is there, claims, and returns how to mend it.
func TestReasons(t *testing.T) {
	t.Parallel()
	all := newScene(t)
	for name, row := range map[string]struct {
		arrange func(scene) (claim *ipamv1alpha1.IPClaim, mend func())
		reason  ipamv1alpha1.Reason
		says    string // part of the message
		stalled bool   // nobody else can end it
	}{
		"class missing": {
			reason: ipamv1alpha1.ReasonClassNotFound, says: `no class "{name}"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.pool(s.cidr)
					s.class()
				}
			},
		},
		"provisioner unknown": {
			reason: ipamv1alpha1.ReasonUnknownProvisioner, says: `"example.com/other"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Provisioner("example.com/other"))
				s.pool(s.cidr)
				framework.WaitCondition(s, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonUnknownProvisioner)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.Provisioner = ipamv1alpha1.NativeProvisioner })
				}
			},
		},
		"length out of the class's range": {
			reason: ipamv1alpha1.ReasonPrefixLengthRejected, says: "/24 to /26", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class(gen.Lengths{Min: 24, Max: 26})
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.AllowedPrefixLengths.Max = 28 })
				}
			},
		},
		"family of another class": {
			reason: ipamv1alpha1.ReasonFamilyMismatch, says: "address family IPv4 does not match", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Family(ipamv1alpha1.IPv6))
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Family(ipamv1alpha1.IPv4), gen.Length(28)), func() {
					framework.Delete(s, s.platform, class)
					s.class()
				}
			},
		},
		"address in no pool, until there is one": {
			reason: ipamv1alpha1.ReasonAddressOutOfRange, says: "192.0.2.7", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Address("192.0.2.7")), func() {
					framework.Create(s, s.tenant, gen.Pool(s.name, gen.CIDR("192.0.2.0/28"), gen.Backs(s.name)))
				}
			},
		},
		"address in use, until its holder goes": {
			reason: ipamv1alpha1.ReasonAddressInUse, says: "/28",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				holder := s.holds(s.name+"-holder", gen.Length(28))
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Address(holder.Status.AllocatedCIDR)), func() { framework.Delete(s, s.tenant, holder) }
			},
		},
		"pool fragmented, until there is another": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: "/25",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(part(s.cidr, 24))
				s.holds(s.name+"-first", gen.Length(28))
				return gen.Claim(s.name, gen.OfClass(s.name), gen.Length(24)), func() {
					framework.Create(s, s.platform, platformPool(s.name+"-more", s.platform.CIDR(s), s.name))
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scene{T: t, platform: all.platform, tenant: all.tenant, name: framework.Name(t), cidr: all.platform.CIDR(t)}
			claim, mend := row.arrange(s)
			framework.Create(t, s.tenant, claim)
			framework.WaitAllocated(t, s.tenant, claim, row.reason)
			showsRefusal(t, claim, strings.ReplaceAll(row.says, "{name}", s.name), row.stalled)
			mend()
			framework.WaitBound(t, s.tenant, claim)
			showsSuccess(t, claim.Status.Conditions)
		})
	}
}
