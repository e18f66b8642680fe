package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/networks"
)

// The classes that a network controller uses: a /48 for each network, a /64 for each location of it, a /96 for each interface. The
// IPv4 addresses of an interface are unique within its network.
const (
	networkClass  = "network-ipv6"
	locationClass = "location-ipv6"
	endpointClass = "endpoint-ipv6"
	overlayClass  = "endpoint-ipv4"
)

// offerNetworks offers the classes of networks, each with a name that begins so, from a pool of IPv6. With defaults, the classes
// of endpoints are those of their families.
func offerNetworks(t *testing.T, platform *framework.Platform, prefix, tenancy string, cidr ipamv1alpha1.CIDR, options ...gen.ClassOption) {
	t.Helper()
	class := func(name string, length int32, change func(*ipamv1alpha1.IPClassSpec), options ...gen.ClassOption) {
		c := gen.Class(prefix+name, append(options, gen.DefaultLength(length))...)
		change(&c.Spec)
		framework.Create(t, platform, c)
	}
	v6 := gen.Family(ipamv1alpha1.IPv6)
	class(networkClass, 48, func(s *ipamv1alpha1.IPClassSpec) { s.PoolPer = []string{tenancy, "network"} }, v6)
	class(locationClass, 64, func(s *ipamv1alpha1.IPClassSpec) {
		s.ParentClassName, s.PoolPer = prefix+networkClass, []string{"network", "location", tenancy}
		s.Reservations = &ipamv1alpha1.PoolReservations{Leading: 1, UnitPrefixLength: 96}
	}, v6)
	class(endpointClass, 96, func(s *ipamv1alpha1.IPClassSpec) { s.ParentClassName = prefix + locationClass }, append(options, v6)...)
	root := platformPool(prefix+"root", cidr, prefix+networkClass)
	framework.Create(t, platform, root)
	framework.WaitAllocated(t, platform, root, ipamv1alpha1.ReasonAllocationSucceeded)
}

// offerOverlay offers IPv4 addresses that are unique within a network.
func offerOverlay(t *testing.T, platform *framework.Platform) {
	t.Helper()
	class := gen.Class(overlayClass, gen.DefaultLength(32), gen.Default())
	class.Spec.UniqueWithin = []string{"network"}
	framework.Create(t, platform, class)
	pool := platformPool("overlay", "10.0.0.0/16", overlayClass)
	framework.Create(t, platform, pool)
	framework.WaitAllocated(t, platform, pool, ipamv1alpha1.ReasonAllocationSucceeded)
}

// scope returns that of a network, and of a location if one is given.
func scope(network, location string) ipamv1alpha1.Scope {
	s := ipamv1alpha1.Scope{"network": {APIGroup: "networking.example.com", Kind: "Network", Name: network}}
	if location != "" {
		s["location"] = ipamv1alpha1.ScopeRef{APIGroup: "networking.example.com", Kind: "Location", Name: location}
	}
	return s
}

// ask sends the CREATE of a claim as a network controller does, which encodes empty fields, too, and returns the answer. On a busy
// machine a CREATE may go without: then the controller deletes the claim, if there is one, and asks again.
func ask(ctx context.Context, c client.Client, name string, spec ipamv1alpha1.IPClaimSpec) (claim *ipamv1alpha1.IPClaim, err error) {
	never := retry.Do(ctx, framework.Patience, "an answer", func(ctx context.Context) error {
		claim, err = askOnce(ctx, c, name, spec)
		if err == nil && claim.Status.AllocatedCIDR == "" {
			err = errors.Join(errNoAnswer, c.Delete(ctx, claim))
		}
		if errors.Is(err, errNoAnswer) || networks.Unanswered(err) {
			return err
		}
		return nil
	})
	return claim, cmp.Or(never, err)
}

// errNoAnswer: a CREATE was answered without a CIDR.
var errNoAnswer = errors.New("the CREATE was answered without a CIDR")

func askOnce(ctx context.Context, c client.Client, name string, spec ipamv1alpha1.IPClaimSpec) (*ipamv1alpha1.IPClaim, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&ipamv1alpha1.IPClaim{Spec: spec})
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ipamv1alpha1.GroupVersion.String(), "kind": "IPClaim", "spec": content["spec"], "status": map[string]any{},
		"metadata": map[string]any{"name": name, "namespace": "default", "creationTimestamp": nil},
	}}
	if err := c.Create(ctx, object); err != nil {
		return nil, err
	}
	claim := &ipamv1alpha1.IPClaim{}
	return claim, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, claim)
}

// liesIn reports whether a CIDR lies in another one, and has this length.
func liesIn(cidr, outer string, length int) bool {
	in, errIn := netip.ParsePrefix(cidr)
	out, errOut := netip.ParsePrefix(outer)
	return errors.Join(errIn, errOut) == nil && out.Contains(in.Addr()) && in.Bits() == length
}

// ready waits until claims are served by the classes of networks.
func ready(t *testing.T, tenant client.WithWatch, classes ...string) {
	t.Helper()
	for _, class := range classes {
		probed := func(claim *ipamv1alpha1.IPClaim) { claim.Spec.Scope = scope("probe", "probe") }
		framework.Eventually(t, "claims to be served by class "+class, func(ctx context.Context) error {
			probe := gen.Claim("probe", gen.OfClass(class))
			probed(probe)
			if err := tenant.Create(ctx, probe, client.DryRunAll); err != nil || probe.Status.AllocatedCIDR == "" {
				return fmt.Errorf("a claim would be answered with %+v: %w", probe.Status, err)
			}
			return nil
		})
	}
}

// network is one network whose controller asks for its ranges and addresses.
type network struct {
	*testing.T
	tenant  client.WithWatch
	name    string
	answers map[string]*ipamv1alpha1.IPClaim
}

// create sends a CREATE whose name is free, which must be answered with a CIDR.
func (n *network) create(what string, spec ipamv1alpha1.IPClaimSpec) *ipamv1alpha1.IPClaim {
	n.Helper()
	name := n.name + "-" + what
	if err := n.tenant.Get(n.Context(), client.ObjectKey{Namespace: "default", Name: name}, &ipamv1alpha1.IPClaim{}); !apierrors.IsNotFound(err) {
		n.Fatalf("GET of claim %s before its CREATE: %v, want 404", name, err)
	}
	claim, err := ask(n.Context(), n.tenant, name, spec)
	if err != nil || claim.Status.AllocatedCIDR == "" || claim.Status.Phase != ipamv1alpha1.ClaimBound {
		n.Fatalf("the CREATE of %s is answered with %+v, %v; want its CIDR", name, claim, err)
	}
	n.answers[what] = claim
	return claim
}

// pool reads the pool that an answer names, in the workspace of the claim.
func (n *network) pool(of *ipamv1alpha1.IPClaim) {
	n.Helper()
	pool := &ipamv1alpha1.IPPool{}
	if err := n.tenant.Get(n.Context(), client.ObjectKey{Name: of.Status.PoolRef.Name}, pool); err != nil || of.Status.PoolRef.ProjectRef != nil {
		n.Errorf("the pool of claim %s, right after its CREATE: %v (%+v); want it in the workspace of the claim", of.Name, err, of.Status.PoolRef)
	}
}

func (n *network) asksForNetwork() {
	n.Helper()
	claim := n.create("network", ipamv1alpha1.IPClaimSpec{ClassName: networkClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope(n.name, "")})
	if n.pool(claim); claim.Status.BoundAllocationRef != nil {
		n.Errorf("a range has the record %+v, want none", claim.Status.BoundAllocationRef)
	}
}

func (n *network) asksForLocation() {
	n.Helper()
	n.pool(n.create("location", ipamv1alpha1.IPClaimSpec{ClassName: locationClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope(n.name, "ams")}))
}

func (n *network) asksForInterface() {
	n.Helper()
	for _, family := range []ipamv1alpha1.IPFamily{ipamv1alpha1.IPv6, ipamv1alpha1.IPv4} {
		claim := n.create("interface-"+strings.ToLower(string(family)), ipamv1alpha1.IPClaimSpec{IPFamily: family, Scope: scope(n.name, "ams")})
		if claim.Status.BoundAllocationRef == nil {
			n.Errorf("claim %s has no record in its answer", claim.Name)
		}
		if family == ipamv1alpha1.IPv6 {
			n.pool(claim)
		}
	}
}

// isWhole checks that the network has one /48, one /64 in it, and its addresses in that.
func (n *network) isWhole() {
	n.Helper()
	cidr := func(what string) string { return n.answers[what].Status.AllocatedCIDR }
	if !liesIn(cidr("network"), "2001:db8::/32", 48) || !liesIn(cidr("location"), cidr("network"), 64) || !liesIn(cidr("interface-ipv6"), cidr("location"), 96) {
		n.Errorf("network, location and interface have %s, %s and %s; want each inside of the one before", cidr("network"), cidr("location"), cidr("interface-ipv6"))
	}
	gateway, _ := netip.ParsePrefix(cidr("location"))
	if got := cidr("interface-ipv6"); got == netip.PrefixFrom(gateway.Addr(), 96).String() {
		n.Errorf("the interface has %s, which is reserved", got)
	}
	if got := cidr("interface-ipv4"); got != "10.0.0.0/32" {
		n.Errorf("the first IPv4 address of the network is %s, want 10.0.0.0/32, as in every network", got)
	}
	framework.Eventually(n, "the capacity of the /64 to be published", func(ctx context.Context) error {
		pool := &ipamv1alpha1.IPPool{}
		err := n.tenant.Get(ctx, client.ObjectKey{Name: n.answers["location"].Status.PoolRef.Name}, pool)
		if err != nil || pool.Status.Capacity == nil || pool.Status.Capacity.Allocated != "8589934592" {
			return fmt.Errorf("it is %+v: %w", pool.Status.Capacity, err)
		}
		return nil
	})
}

// staysAsAnswered waits until the claims are confirmed, and reads them as the controller does for ever after.
func (n *network) staysAsAnswered() {
	n.Helper()
	for _, what := range slices.Sorted(maps.Keys(n.answers)) {
		answer, now := n.answers[what], &ipamv1alpha1.IPClaim{}
		if answer.Spec.Target != ipamv1alpha1.TargetScopeRange {
			framework.WaitBound(n, n.tenant, answer.DeepCopy())
		}
		err := n.tenant.Get(n.Context(), client.ObjectKeyFromObject(answer), now)
		if err != nil || now.Status.AllocatedCIDR != answer.Status.AllocatedCIDR || now.Spec.Target != answer.Spec.Target || now.ResourceVersion != answer.ResourceVersion {
			n.Errorf("claim %s is %+v, %v; want it as its CREATE was answered: %+v", answer.Name, now, err, answer)
		}
	}
}

// patiently sends a request again while it has no answer, as a controller does: on a busy machine that happens. It logs each time.
func patiently(t *testing.T, do func(context.Context) error) (err error) {
	t.Helper()
	never := retry.Do(t.Context(), framework.Patience, "an answer", func(ctx context.Context) error {
		if err = do(ctx); networks.Unanswered(err) {
			t.Log("asking again:", err)
			return err
		}
		return nil
	})
	return cmp.Or(never, err)
}
