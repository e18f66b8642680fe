package config

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// inUse marks a pool as one that holds blocks.
func inUse(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	pool.Status.Conditions = []metav1.Condition{{
		Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonInUse),
		Message: "held by IPClaim default/web", LastTransitionTime: metav1.Now(),
	}}
	return pool
}

// idle says that nobody uses a pool.
func idle(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	inUse(pool).Status.Conditions[0].Status = metav1.ConditionFalse
	return pool
}

func TestIPPool_Create(t *testing.T) {
	const parent = "parentPoolRef: {name: parent}"
	cases := []refused{
		{`cidr: 10.0.0.0/8`, ""},
		{`cidr: "2001:db8::/32", ipFamily: IPv6`, ""},
		{`cidr: 0.0.0.0/0`, ""},
		{parent + `, prefixLength: 24`, ""},
		{`parentPoolRef: {name: p, projectRef: {name: "root:ipam"}}, prefixLength: 24`, ""},
		{`cidr: 10.0.0.0/8, addressDomain: d, classNames: [a, b], maxPerConsumer: "256", visibility: shared, ` +
			`consumers: ["root:acme:web", "root:acme:*"], reservations: {leading: 1, trailing: 1, unitPrefixLength: 32}, ` +
			`excludedCIDRs: [10.1.0.0/16], allocation: {minPrefixLength: 16, maxPrefixLength: 28, strategy: BestFit}`, ""},

		{parent + `, prefixLength: 24, address: 10.0.1.0/24`, ""},
		{parent + `, address: "2001:db8::/64"`, ""},
		{parent + `, prefixLength: 25, address: 10.0.1.0/24`, "spec.prefixLength does not match spec.address"},
		{parent + `, address: 10.0.1.1/24`, "invalid CIDR: 10.0.1.1/24 is not in network form; write 10.0.1.0/24"},
		{parent + `, address: 0.0.0.0/0`, "spec.address must have a prefix length of 1 or more"},
		{parent + `, address: 10.0.0.0/26, networkPrefixLength: 27`, "must not be longer than the prefix length of the pool"},
		{`cidr: 10.0.0.0/8, address: 10.0.0.0/8`, "spec.address is not allowed on a root pool"},
		{`parentClassName: c`, ""},
		{`parentClassName: c, prefixLength: 24, visibility: shared, consumers: ["root:acme:web"], excludedCIDRs: [10.0.0.0/32]`, ""},
		{`parentClassName: c, address: 10.0.1.0/24`, ""},
		{`parentClassName: ""`, "at least 1 chars long"},
		{`parentClassName: c, cidr: 10.0.0.0/24`, "spec.cidr is not allowed on a child pool"},
		{`parentClassName: c, ipFamily: IPv4`, "spec.ipFamily is not allowed on a child pool"},
		{`parentClassName: c, addressDomain: d`, "spec.addressDomain is not allowed on a child pool"},
		{`parentClassName: c, prefixLength: 24, ` + parent, "spec.parentClassName and spec.parentPoolRef exclude each other"},

		{``, "spec.cidr is required on a root pool"},
		{`cidr: banana`, "invalid CIDR: write a network such as 10.0.0.0/8"},
		{`cidr: ""`, "invalid CIDR"},
		{`cidr: 10.0.0.0`, "invalid CIDR"},
		{`cidr: 10.0.0.0/33`, "invalid CIDR"},
		{`cidr: 010.0.0.0/8`, "invalid CIDR"},
		{`cidr: "::ffff:10.0.0.0/104"`, "invalid CIDR"},
		{`cidr: "fe80::%eth0/64"`, "invalid CIDR"},
		{`cidr: 10.0.0.1/8`, "invalid CIDR: 10.0.0.1/8 is not in network form; write 10.0.0.0/8"},
		{`cidr: "2001:DB8::/32"`, "write 2001:db8::/32"},
		{`cidr: "2001:db8:0:0::/32"`, "write 2001:db8::/32"},
		{`cidr: 10.0.0.0/8, ipFamily: IPv6`, "address family of spec.ipFamily does not match spec.cidr"},
		{`cidr: "2001:db8::/32", ipFamily: IPv4`, "address family of spec.ipFamily does not match spec.cidr"},
		{`cidr: 10.0.0.0/8, ipFamily: IPv5`, `supported values: "IPv4", "IPv6"`},
		{`cidr: 10.0.0.0/8, prefixLength: 24`, "spec.prefixLength and spec.parentPoolRef go together"},

		{parent + `, cidr: 10.0.0.0/8, prefixLength: 24`, "spec.cidr is not allowed on a child pool"},
		{parent + `, ipFamily: IPv4, prefixLength: 24`, "spec.ipFamily is not allowed on a child pool"},
		{parent + `, addressDomain: d, prefixLength: 24`, "spec.addressDomain is not allowed on a child pool"},
		{parent, "spec.prefixLength and spec.parentPoolRef go together"},
		{parent + `, prefixLength: 0`, "should be greater than or equal to 1"},
		{parent + `, prefixLength: 129`, "should be less than or equal to 128"},
		{`parentPoolRef: {name: self}, prefixLength: 24`, "a pool may not be its own parent"},
		{`parentPoolRef: {name: p, projectRef: {name: "root:acme:*"}}, prefixLength: 24`, "write a path such as root:acme:web"},

		{`cidr: 10.0.0.0/8, allocation: {minPrefixLength: 28, maxPrefixLength: 24}`, "minPrefixLength must not exceed maxPrefixLength"},
		{`cidr: 10.0.0.0/8, allocation: {minPrefixLength: 0}`, "should be greater than or equal to 1"},
		{`cidr: 10.0.0.0/8, allocation: {maxPrefixLength: 64}`, "prefix lengths must be 1 to 32 in a pool of IPv4"},
		{`cidr: 10.0.0.0/8, allocation: {maxPrefixLength: 4}`, "shorter than that of spec.cidr"},
		{`cidr: 10.0.0.0/8, allocation: {strategy: Random}`, `supported values: "FirstFit", "BestFit", "LeastUtilized"`},
		{`cidr: 10.0.0.0/8, reservations: {leading: 1}`, "unitPrefixLength is required"},
		{`cidr: 10.0.0.0/8, reservations: {leading: 1, unitPrefixLength: 33}`, "prefix lengths must be 1 to 32"},
		{`cidr: 10.0.0.0/8, excludedCIDRs: [10.0.0.0/16, 11.0.0.0/16]`, "11.0.0.0/16 is not inside 10.0.0.0/8"},
		{`cidr: 10.0.0.0/8, excludedCIDRs: [10.0.0.1/16]`, "write 10.0.0.0/16"},
		{`cidr: 10.0.0.0/8, excludedCIDRs: [10.0.0.0/16, 10.0.0.0/16]`, "Duplicate value"},
		{`cidr: 10.0.0.64/26, gateway: 10.0.0.65, networkPrefixLength: 24`, ""},
		{`cidr: "2001:db8::/64", gateway: "2001:db8::1"`, ""},
		{parent + `, prefixLength: 26, gateway: 10.0.0.65, networkPrefixLength: 24`, ""},
		{`cidr: 192.0.2.128/28, gateway: 192.0.2.1, networkPrefixLength: 24`, ""},
		{`cidr: "2001:db8::80/124", gateway: "2001:db8::1", networkPrefixLength: 64`, ""},
		{`cidr: "2001:db8::/64", gateway: "2001:db8::"`, ""},
		{`cidr: 10.0.0.0/31, gateway: 10.0.0.1`, ""},
		{`cidr: 10.0.0.0/31, gateway: 10.0.0.0`, ""},
		{`cidr: 10.0.0.64/32, gateway: 10.0.0.64`, ""},
		{`cidr: 192.0.2.128/28, gateway: 192.0.2.127, networkPrefixLength: 24`, ""},
		{`cidr: 192.0.2.128/28, gateway: 192.0.2.1`, "192.0.2.1 is not in the /28 around 192.0.2.128/28; correct it, or give the length of the network"},
		{`cidr: 192.0.2.128/28, gateway: 192.0.3.1, networkPrefixLength: 24`, "192.0.3.1 is not in the /24 around 192.0.2.128/28"},
		{`cidr: 192.0.2.128/28, gateway: 192.0.2.0, networkPrefixLength: 24`, "spec.gateway is the network or broadcast address"},
		{`cidr: 192.0.2.128/28, gateway: 192.0.2.255, networkPrefixLength: 24`, "spec.gateway is the network or broadcast address"},
		{`cidr: 10.0.0.0/30, gateway: 10.0.0.3`, "spec.gateway is the network or broadcast address"},
		{`cidr: 10.0.0.0/30, gateway: 10.0.0.0`, "spec.gateway is the network or broadcast address"},
		{`cidr: 10.0.0.0/24, gateway: 10.0.1.1`, "spec.gateway must be an address of the network of the pool: 10.0.1.1 is not in the /24 around 10.0.0.0/24"},
		{`cidr: 10.0.0.0/24, gateway: "2001:db8::1"`, "spec.gateway must be an address of the network of the pool"},
		{`cidr: 10.0.0.0/24, gateway: 10.0.0.1/24`, "invalid gateway: write an address such as 192.0.2.1"},
		{`cidr: 10.0.0.0/24, gateway: banana`, "invalid gateway"},
		{`cidr: "2001:db8::/64", gateway: "2001:DB8::1"`, "invalid gateway: write 2001:db8::1"},
		{`cidr: 10.0.0.0/24, networkPrefixLength: 25`, "must not be longer than the prefix length of the pool"},
		{`cidr: 10.0.0.0/24, networkPrefixLength: 0`, "should be greater than or equal to 1"},
		{parent + `, prefixLength: 24, networkPrefixLength: 25`, "must not be longer than the prefix length of the pool"},
		{`cidr: 10.0.0.0/8, maxRetentionLease: soon`, "invalid duration: write a number with a unit, such as 30s, 15m or 24h"},
		{`cidr: 10.0.0.0/8, maxRetentionLease: -1h`, "invalid duration"},
		{`cidr: 10.0.0.0/8, reservations: {leading: -1, unitPrefixLength: 32}`, "should be greater than or equal to 0"},
		{`cidr: 10.0.0.0/8, classNames: [""]`, "at least 1 chars long"},
		{`cidr: 10.0.0.0/8, classNames: [twice, twice]`, "Duplicate value"},
		{`cidr: 10.0.0.0/8, classNames: [` + strings.Repeat("x", 257) + `]`, "Too long: may not be more than 256"},
		{`cidr: 10.0.0.0/8, classNames: [` + many(65, "class-%d") + `]`, "must have at most 64 items"},
		{`cidr: 10.0.0.0/8, consumers: [` + many(257, `"root:team-%d"`) + `]`, "must have at most 256 items"},
		{`cidr: 10.0.0.0/8, excludedCIDRs: [` + many(257, "10.0.%d.0/32") + `]`, "must have at most 256 items"},
		{`cidr: 10.0.0.0/8, visibility: everybody`, "Unsupported value"},
		{`cidr: 10.0.0.0/8, consumers: ["root:acme:*:x"]`, "invalid workspace: write a path such as root:acme:web, or root:acme:*"},
		{`cidr: 10.0.0.0/8, consumers: ["*"]`, "invalid workspace"},
		{`cidr: 10.0.0.0/8, consumers: ["ROOT:acme"]`, "invalid workspace"},
		{`cidr: 10.0.0.0/8, maxPerConsumer: "0"`, "invalid count"},
		{`cidr: 10.0.0.0/8, maxPerConsumer: "1e3"`, "invalid count"},
		{`cidr: 10.0.0.0/8, maxPerConsumer: 10`, "must be of type string"},
	}
	cases = append(cases, within("cidr: 10.0.0.0/8, ", cooldowns)...)
	platformDoors(t)["IPPool"].create(t, cases)
	tenantDoors(t)["IPPool"].create(t, cases)
}

func TestIPPool_RefusesFieldsOfThePlatformFromTenants(t *testing.T) {
	platform, tenant := platformDoors(t)["IPPool"], tenantDoors(t)["IPPool"]
	for _, tt := range []struct {
		option gen.PoolOption
		want   string
	}{
		{gen.Visible(ipamv1alpha1.VisibilityPlatform), `supported values: "consumer", "shared"`},
		{gen.Slices(24), "spec.slices is not allowed outside the platform workspace"},
	} {
		pool := object(t, gen.Pool("p", tt.option))
		expect(t, platform.refusals(pool, nil), "")
		expect(t, tenant.refusals(pool, nil), tt.want)
	}
}

// A pool's slices are its children, so the pool's bounds hold for their length.
func TestIPPool_BoundsTheLengthOfSlices(t *testing.T) {
	const outside = "spec.slices.prefixLength must be within spec.allocation.minPrefixLength and maxPrefixLength"
	platformDoors(t)["IPPool"].create(t, within("cidr: 10.0.0.0/8, slices: {prefixLength: 24}, ", []refused{
		{`allocation: {}`, ""},
		{`allocation: {minPrefixLength: 24}`, ""},
		{`allocation: {maxPrefixLength: 24}`, ""},
		{`allocation: {minPrefixLength: 25}`, outside},
		{`allocation: {maxPrefixLength: 23}`, outside},
		{`allocation: {minPrefixLength: 25, maxPrefixLength: 28}`, outside},
	}))
}

func TestIPPool_Update(t *testing.T) {
	d := platformDoors(t)["IPPool"]
	for _, tt := range []struct {
		name     string
		old, new *ipamv1alpha1.IPPool
		want     string
	}{
		{"nothing", gen.Pool("p"), gen.Pool("p"), ""},
		{"classNames", gen.Pool("p"), gen.Pool("p", gen.Backs("a")), ""},
		{"consumers", gen.Pool("p"), gen.Pool("p", gen.Consumers{"root:a"}), ""},
		{"cidr", gen.Pool("p"), gen.Pool("p", gen.CIDR("10.0.0.0/8")), "spec.cidr is immutable"},
		{"cidr to a child", gen.Pool("p"), gen.Pool("p", gen.ChildOf("q", 24)), "spec.cidr is immutable"},
		{"family added", gen.Pool("p"), gen.Pool("p", gen.Family("IPv4")), "spec.ipFamily is immutable"},
		{"family removed", gen.Pool("p", gen.Family("IPv4")), gen.Pool("p"), "spec.ipFamily is immutable"},
		{"cidr out of it", gen.Pool("p"), gen.Pool("p", gen.CIDR("")), "spec.cidr is required on a root pool"},
		{"parent out of it", gen.Pool("p", gen.ChildOf("q", 24)), gen.Pool("p"), "spec.parentPoolRef is immutable"},
		{"parent", gen.Pool("p", gen.ChildOf("q", 24)), gen.Pool("p", gen.ChildOf("r", 24)), "spec.parentPoolRef is immutable"},
		{"length", gen.Pool("p", gen.ChildOf("q", 24)), gen.Pool("p", gen.ChildOf("q", 25)), "spec.prefixLength is immutable"},
		{"domain of an empty pool", gen.Pool("p", gen.Domain("a")), gen.Pool("p", gen.Domain("b")), ""},
		{"domain joined in use", inUse(gen.Pool("p")), gen.Pool("p", gen.Domain("a")), "spec.addressDomain is immutable while the pool is in use"},
		{"domain left in use", inUse(gen.Pool("p", gen.Domain("a"))), gen.Pool("p"), "spec.addressDomain is immutable while the pool is in use"},
		{"slices of an empty pool", gen.Pool("p", gen.Slices(24)), gen.Pool("p", gen.Slices(25)), ""},
		{"slices added in use", inUse(gen.Pool("p")), gen.Pool("p", gen.Slices(24)), ""},
		{"slices in use", inUse(gen.Pool("p", gen.Slices(24))), gen.Pool("p", gen.Slices(25)), "spec.slices.prefixLength is immutable while the pool is in use"},
		{"slices removed in use", inUse(gen.Pool("p", gen.Slices(24))), gen.Pool("p"), "spec.slices.prefixLength is immutable while the pool is in use"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, d.refusals(object(t, tt.new), object(t, tt.old)), tt.want)
		})
	}
}

// many returns a list of n entries, of a format that takes their number.
func many(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ", ")
}

// Each version has a status subresource, so a server drops the status of a CREATE, even if that is stored past all
// policies. A lost ledger is made again from the status of pools.
func TestIPPool_DropsTheStatusOfACreateInEachVersion(t *testing.T) {
	for i, crd := range allCRDs(t, "IPPool") {
		for _, version := range crd.Spec.Versions {
			if version.Subresources == nil || version.Subresources.Status == nil {
				where := []string{"platform", "tenants"}[i]
				t.Errorf("%s: version %s of IPPool is without the status subresource; want it in each", where, version.Name)
			}
		}
	}
}
