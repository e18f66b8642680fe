package e2e

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// What is beyond a limit, not among the words there are, or half said is refused when it is
// written.
func TestValidation_LimitsAndWords(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := func(options ...gen.PoolOption) client.Object { return gen.Pool(s.name, options...) }
	claim := func(options ...gen.ClaimOption) client.Object { return gen.Claim(s.name, options...) }
	class := func(options ...gen.ClassOption) client.Object { return gen.Class(s.name, options...) }
	long := strings.Repeat("x", 257)
	parameters := gen.Class(s.name)
	parameters.Spec.Parameters = map[string]string{"a": long}

	for _, row := range []struct {
		object client.Object
		says   string
	}{
		{pool(gen.Backs(many(65, "class-%d")...)), "must have at most 64 items"},
		{pool(gen.Backs("")), "at least 1 chars long"},
		{pool(gen.Backs(long)), "Too long: may not be more than 256 bytes"},
		{pool(gen.Backs("twice", "twice")), "Duplicate value"},
		{pool(gen.Consumers(as[ipamv1alpha1.Consumer](many(257, "root:team-%d")))), "must have at most 256 items"},
		{pool(gen.Consumers{"*"}), "invalid workspace: write a path such as root:acme:web, or root:acme:*"},
		{pool(gen.Consumers{"root:acme:*:x"}), "invalid workspace"},
		{pool(gen.Excludes(as[ipamv1alpha1.CIDR](many(257, "10.0.%d.0/32"))...)), "must have at most 256 items"},
		{pool(gen.Excludes("10.0.0.0/24", "10.0.0.0/24")), "Duplicate value"},
		{pool(gen.Excludes("10.0.0.1/24")), "10.0.0.1/24 is not in network form; write 10.0.0.0/24"},
		{pool(gen.Reserves(1, 0, 0)), "unitPrefixLength is required"},
		{pool(gen.Reserves(1, 0, 33)), "prefix lengths must be 1 to 32 in a pool of IPv4"},
		{pool(gen.Reserves(-1, 0, 32)), "should be greater than or equal to 0"},
		{pool(gen.ChildOf(s.name, 24)), "a pool may not be its own parent"},
		{pool(gen.ChildOf("parent", 24), gen.Domain("d")), "spec.addressDomain is not allowed on a child pool"},
		{pool(gen.ChildOf("parent", 129)), "should be less than or equal to 128"},
		{pool(gen.MaxPerConsumer("0")), "invalid count"},
		{pool(gen.Strategy("Random")), `Unsupported value: "Random"`},
		{pool(gen.Visible("everybody")), `Unsupported value: "everybody"`},
		{pool(gen.Family("IPv5")), `Unsupported value: "IPv5"`},

		{claim(gen.OfClass(long)), "Too long: may not be more than 256 bytes"},
		{claim(gen.FromPool("")), "at least 1 chars long"},
		{claim(gen.FromPoolIn("a b", "pool")), "invalid workspace: write a path such as root:acme:web"},
		{claim(gen.FromPoolIn("root:acme:*", "pool")), "invalid workspace"},
		{claim(gen.Reclaim("Keep")), `Unsupported value: "Keep"`},
		{claim(gen.Family("ipv4")), `Unsupported value: "ipv4"`},
		{claim(gen.OwnedBy(ipamv1alpha1.OwnerRef{Name: "web"})), "spec.ownerRef.kind"},
		{claim(gen.Address("10.0.0.0"), gen.Length(28)), "spec.prefixLength does not match spec.address"},
		{claim(gen.Address("2001:DB8::1")), "invalid address: write 2001:db8::1"},
		{claim(gen.Address("::ffff:10.0.0.1")), "invalid address"},

		{class(gen.Consumers{"root:*:a"}), "invalid workspace"},
		{class(gen.MaxPerConsumer("-1")), "invalid count"},
		{class(gen.Strategy("Random")), `Unsupported value: "Random"`},
		{class(gen.Lengths{Min: -1, Max: 24}), "should be greater than or equal to 0"},
		{parameters, "must not exceed 256 characters"},
	} {
		c := client.Client(s.tenant)
		if _, isClass := row.object.(*ipamv1alpha1.IPClass); isClass {
			c = s.platform
		}
		isRefused(t, c.Create(t.Context(), row.object), row.says, "create %T %+v", row.object, row.object)
	}
}

// Nothing that a claim was made with is taken out of it, nor a pool's address space.
func TestValidation_Removal(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	root, child := gen.Pool("root", gen.Family(ipamv1alpha1.IPv4)), gen.Pool("child", gen.ChildOf("root", 24))
	byClass := gen.Claim("by-class", gen.OfClass("none"), gen.Length(28), gen.Family(ipamv1alpha1.IPv4),
		gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: "Pod", Name: "web"}))
	byPool := gen.Claim("by-pool", gen.FromPool("none"), gen.Address("10.0.0.1"))
	bySelector := gen.Claim("by-selector", gen.Selecting("tier", "web"))
	framework.Create(t, s.tenant, root, child, byClass, byPool, bySelector)

	for field, object := range map[string]client.Object{
		"className": byClass, "prefixLength": byClass, "ipFamily": byClass, "ownerRef": byClass,
		"poolRef": byPool, "address": byPool, "poolSelector": bySelector,
	} {
		err := s.tenant.Patch(t.Context(), object.DeepCopyObject().(client.Object), merge(`{"spec": {"`+field+`": null}}`))
		isRefused(t, err, "spec."+field+" is immutable: create another claim", "take %s out of %s", field, object.GetName())
	}
	for patch, row := range map[string]struct {
		pool *ipamv1alpha1.IPPool
		says string
	}{
		`{"cidr": null, "parentPoolRef": {"name": "other"}, "prefixLength": 24, "ipFamily": null}`: {root, "spec.cidr is immutable"},
		`{"cidr": null}`:                        {root, "spec.cidr is required on a root pool"},
		`{"ipFamily": null}`:                    {root, "spec.ipFamily is immutable"},
		`{"parentPoolRef": null}`:               {child, "spec.parentPoolRef is immutable"},
		`{"excludedCIDRs": ["192.168.0.0/24"]}`: {root, "192.168.0.0/24 is not inside 10.0.0.0/16"},
		`{"allocation": {"minPrefixLength": 28, "maxPrefixLength": 24}}`: {root, "minPrefixLength must not exceed maxPrefixLength"},
	} {
		err := s.tenant.Patch(t.Context(), row.pool.DeepCopy(), merge(`{"spec": `+patch+`}`))
		isRefused(t, err, row.says, "patch pool %s with %s", row.pool.Name, patch)
	}
}

// many is n strings, of a format that takes their number.
func many(n int, format string) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

// as is a list of strings as one of another type.
func as[T ~string](list []string) []T {
	typed := make([]T, len(list))
	for i, s := range list {
		typed[i] = T(s)
	}
	return typed
}
