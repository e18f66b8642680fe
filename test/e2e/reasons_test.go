package e2e

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A claim that cannot be met says why, and binds by itself when the cause is gone.
// Each row arranges what is there, claims, and returns how to mend it.
func TestReasons(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		arrange func(scene) (claim *ipamv1alpha1.IPClaim, mend func())
		reason  ipamv1alpha1.Reason
		says    string // part of the message
		stalled bool   // nobody else can end it
	}{
		"class missing": {
			reason: ipamv1alpha1.ReasonClassNotFound, says: `no class "{name}"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.pool(s.cidr)
					s.class()
				}
			},
		},
		"class for others": {
			reason: ipamv1alpha1.ReasonClassNotFound, says: `no class "{name}"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Visible(ipamv1alpha1.VisibilityShared))
				s.pool(s.cidr)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					framework.WaitCondition(s, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)
					framework.Update(s, s.platform, class, func(class *ipamv1alpha1.IPClass) {
						class.Spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(s.tenant.Path)}
					})
				}
			},
		},
		"provisioner unknown": {
			reason: ipamv1alpha1.ReasonUnknownProvisioner, says: `"example.com/other"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Provisioner("example.com/other"))
				s.pool(s.cidr)
				framework.WaitCondition(s, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonUnknownProvisioner)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.Provisioner = ipamv1alpha1.NativeProvisioner })
				}
			},
		},
		"no pool behind the class": {
			reason: ipamv1alpha1.ReasonNoOfferingPool, says: `class "{name}" exists`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() { s.pool(s.cidr) }
			},
		},
		"pool behind another class": {
			reason: ipamv1alpha1.ReasonNoOfferingPool, says: `class "{name}" exists`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				pool := platformPool(s.name, s.cidr, "another")
				framework.Create(s, s.platform, pool)
				framework.WaitAllocated(s, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.ClassNames = append(spec.ClassNames, s.name) })
				}
			},
		},
		"pool for other consumers": {
			reason: ipamv1alpha1.ReasonNoOfferingPool, says: `class "{name}" exists`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				pool := platformPool(s.name, s.cidr, s.name)
				pool.Spec.Consumers = []ipamv1alpha1.Consumer{"root:others:*"}
				framework.Create(s, s.platform, pool)
				framework.WaitAllocated(s, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Consumers = append(spec.Consumers, "root:*") })
				}
			},
		},
		"length out of the class's range": {
			reason: ipamv1alpha1.ReasonPrefixLengthRejected, says: "/24 to /26", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class(gen.Lengths{Min: 24, Max: 26})
				s.pool(s.cidr)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.AllowedPrefixLengths.Max = 28 })
				}
			},
		},
		"no length, and no default": {
			reason: ipamv1alpha1.ReasonPrefixLengthRejected, says: "no default prefix length", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class(gen.Lengths{Min: 24, Max: 26})
				s.pool(s.cidr)
				return gen.Claim("web", gen.OfClass(s.name)), func() {
					s.changeClass(func(spec *ipamv1alpha1.IPClassSpec) { spec.DefaultPrefixLength = 25 })
				}
			},
		},
		"length that the class allows and no pool hands out": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: `to /26, not /28`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				pool := platformPool(s.name, s.cidr, s.name)
				pool.Spec.Allocation.MaxPrefixLength = 26
				framework.Create(s, s.platform, pool)
				framework.WaitAllocated(s, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() {
					s.changePool(func(spec *ipamv1alpha1.IPPoolSpec) { spec.Allocation.MaxPrefixLength = 30 })
				}
			},
		},
		"block larger than every pool": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: "the largest block it can give is a /24",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(part(s.cidr, 24))
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(23)), func() {
					framework.Create(s, s.platform, platformPool(s.name+"-larger", s.platform.CIDR(s), s.name))
				}
			},
		},
		"length out of the range of the pool that the claim names": {
			reason: ipamv1alpha1.ReasonPrefixLengthRejected, says: "/28", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Lengths{Min: 24, Max: 26})
				return gen.Claim("web", gen.FromPool("own"), gen.Length(28)), func() {
					if err := s.tenant.Patch(s.Context(), pool, merge(`{"spec": {"allocation": {"maxPrefixLength": 30}}}`)); err != nil {
						s.Fatal(err)
					}
				}
			},
		},
		"family of another class": {
			reason: ipamv1alpha1.ReasonFamilyMismatch, says: "address family IPv4 does not match", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				class := s.class(gen.Family(ipamv1alpha1.IPv6))
				s.pool(s.cidr)
				return gen.Claim("web", gen.OfClass(s.name), gen.Family(ipamv1alpha1.IPv4), gen.Length(28)), func() {
					framework.Delete(s, s.platform, class)
					s.class()
				}
			},
		},
		"pool exhausted, until somebody leaves": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: `pool "{name}"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(part(s.cidr, 24))
				s.holds("first", gen.Length(25))
				second := s.holds("second", gen.Length(25))
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(26)), func() { framework.Delete(s, s.tenant, second) }
			},
		},
		"pool fragmented, until there is another": {
			reason: ipamv1alpha1.ReasonPoolExhausted, says: "/25",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(part(s.cidr, 24))
				s.holds("first", gen.Length(28))
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(24)), func() {
					framework.Create(s, s.platform, platformPool(s.name+"-more", s.platform.CIDR(s), s.name))
				}
			},
		},
		"no pool of that name": {
			reason: ipamv1alpha1.ReasonPoolNotFound, says: `no pool "own"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				return gen.Claim("web", gen.FromPool("own"), gen.Length(28)), func() { s.ownPool() }
			},
		},
		"platform's pool named": {
			reason: ipamv1alpha1.ReasonPoolNotFound, says: `no pool "own"`,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				pool := platformPool("own", s.cidr)
				framework.Create(s, s.platform, pool)
				framework.WaitAllocated(s, s.platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
				return gen.Claim("web", gen.FromPoolIn(s.platform.Path, "own"), gen.Length(28)), func() {
					framework.Update(s, s.platform, pool, func(pool *ipamv1alpha1.IPPool) {
						pool.Spec.Visibility = ipamv1alpha1.VisibilityShared
						pool.Spec.Consumers = []ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(s.tenant.Path)}
					})
				}
			},
		},
		"no pool with that label": {
			reason: ipamv1alpha1.ReasonPoolNotFound, says: "selector matches no",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				pool := s.ownPool()
				return gen.Claim("web", gen.Selecting("tier", "web"), gen.Length(28)), func() {
					framework.WaitAllocated(s, s.tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
					framework.Update(s, s.tenant, pool, func(pool *ipamv1alpha1.IPPool) {
						metav1.SetMetaDataLabel(&pool.ObjectMeta, "tier", "web")
					})
				}
			},
		},
		"address taken": {
			reason: ipamv1alpha1.ReasonAddressInUse, says: "192.168.0.16/28",
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.ownPool(gen.CIDR("192.168.0.0/24"))
				holder := gen.Claim("holder", gen.FromPool("own"), gen.Address("192.168.0.16"))
				framework.Create(s, s.tenant, holder)
				framework.WaitBound(s, s.tenant, holder)
				return gen.Claim("web", gen.FromPool("own"), gen.Address("192.168.0.16/28")), func() {
					framework.Delete(s, s.tenant, holder)
				}
			},
		},
		"address in no pool": {
			reason: ipamv1alpha1.ReasonAddressOutOfRange, says: "172.16.0.0/28", stalled: true,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				return gen.Claim("web", gen.OfClass(s.name), gen.Address("172.16.0.0/28")), func() {
					s.ownPool(gen.CIDR("172.16.0.0/16"), gen.Backs(s.name))
				}
			},
		},
		"allocation of that name retained": {
			reason: ipamv1alpha1.ReasonAllocationRetained, says: recordOfWeb,
			arrange: func(s scene) (*ipamv1alpha1.IPClaim, func()) {
				s.class()
				s.pool(s.cidr)
				former := s.holds("web", gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
				framework.Delete(s, s.tenant, former)
				record := &ipamv1alpha1.IPAllocation{}
				record.Namespace, record.Name = metav1.NamespaceDefault, recordOfWeb
				framework.WaitFor(s, s.tenant, record, func(record *ipamv1alpha1.IPAllocation) error {
					if record.Spec.ClaimRef != nil {
						return errors.New("it is not retained")
					}
					return nil
				})
				return gen.Claim("web", gen.OfClass(s.name), gen.Length(28)), func() { framework.Delete(s, s.tenant, record) }
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
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
