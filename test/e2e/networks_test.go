package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A network controller gets its ranges and addresses from the answers of its CREATEs, and finds its pools, request by request.
func TestNetworks_AClientsCallsAreAnswered(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	offerNetworks(t, platform, "", ipamv1alpha1.RoleProject, "2001:db8::/32", gen.Default())
	offerOverlay(t, platform)
	tenant := platform.Tenant(t)
	ready(t, tenant, endpointClass, overlayClass)
	for name, order := range map[string][]string{
		"network-first": {"network", "location", "interface"}, "interface-first": {"interface", "location", "network"}, "location-first": {"location", "interface", "network"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &network{T: t, tenant: tenant, name: name, answers: map[string]*ipamv1alpha1.IPClaim{}}
			calls := map[string]func(){"network": n.asksForNetwork, "location": n.asksForLocation, "interface": n.asksForInterface}
			for _, step := range order {
				calls[step]()
			}
			n.isWhole()
			n.staysAsAnswered()
		})
	}
}

// Ten CREATEs at once into a new network and location, as well as those of their ranges, agree on one pool of each.
func TestNetworks_ManyAtOnceAgree(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	prefix := s.name + "-"
	offerNetworks(t, s.platform, prefix, ipamv1alpha1.RoleAllProjects, "2001:db8:1000::/36")
	s.platform.WaitWebhooks(t, s.tenant)
	other := s.platform.Tenant(t)
	ready(t, s.tenant, prefix+endpointClass)
	ready(t, other, prefix+endpointClass)
	const many = 10
	claims, errs := make([]*ipamv1alpha1.IPClaim, many+2), make([]error, many+2)
	var wg sync.WaitGroup
	for i := range many {
		tenant := s.tenant
		if i%2 == 1 {
			tenant = other
		}
		wg.Go(func() {
			claims[i], errs[i] = ask(t.Context(), tenant, fmt.Sprintf("c%d", i), ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass, Scope: scope("net", "ams")})
		})
	}
	for i, class := range []string{networkClass, locationClass} {
		wg.Go(func() {
			spec := ipamv1alpha1.IPClaimSpec{ClassName: prefix + class, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "ams")}
			claims[many+i], errs[many+i] = ask(t.Context(), s.tenant, class, spec)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	network, location := claims[many].Status.AllocatedCIDR, claims[many+1].Status.AllocatedCIDR
	if !liesIn(network, "2001:db8:1000::/36", 48) || !liesIn(location, network, 64) {
		t.Errorf("the network has %s and its location %s, want a /48, and a /64 inside", network, location)
	}
	seen := map[string]bool{}
	for _, claim := range claims[:many] {
		seen[claim.Status.AllocatedCIDR] = true
		if ref := claim.Status.PoolRef; !liesIn(claim.Status.AllocatedCIDR, location, 96) || ref.ProjectRef == nil || ref.ProjectRef.Name != s.platform.Path {
			t.Errorf("claim %s has %s of %+v, want a /96 of %s, whose pool is the platform's", claim.Name, claim.Status.AllocatedCIDR, ref, location)
		}
	}
	if len(seen) != many {
		t.Errorf("%d claims have %d blocks", many, len(seen))
	}
}

// Refusals have the details that a network controller reads, and a namespace that is missing is said first.
func TestNetworks_RefusalsHaveTheirDetails(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	prefix := s.name + "-"
	offerNetworks(t, s.platform, prefix, ipamv1alpha1.RoleProject, "2001:db8:2000::/48")
	s.platform.WaitWebhooks(t, s.tenant)
	ready(t, s.tenant, prefix+endpointClass)
	if _, err := ask(t.Context(), s.tenant, "net", ipamv1alpha1.IPClaimSpec{ClassName: prefix + networkClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "")}); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name   string
		spec   ipamv1alpha1.IPClaimSpec
		code   int32
		reason ipamv1alpha1.Reason
		beside metav1.CauseType
		named  string
	}{
		{"no-roles", ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass}, http.StatusUnprocessableEntity, ipamv1alpha1.ReasonScopeRolesMissing, "", "no-roles"},
		{"full", ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass, Scope: scope("other", "ams")}, http.StatusInsufficientStorage, ipamv1alpha1.ReasonPoolExhausted, "Exhausted", prefix + "root"},
		{"held", ipamv1alpha1.IPClaimSpec{ClassName: prefix + networkClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "")}, http.StatusConflict, ipamv1alpha1.ReasonRangeHeld, "ClaimExists", "held"},
		{"no-range", ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "ams")}, http.StatusUnprocessableEntity, ipamv1alpha1.ReasonTargetRejected, "", "no-range"},
		{"long", ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass, PrefixLength: 64, Scope: scope("net", "ams")}, http.StatusUnprocessableEntity, ipamv1alpha1.ReasonPrefixLengthRejected, "", "long"},
	} {
		framework.Eventually(t, row.name+" to be refused", func(ctx context.Context) error {
			claim, err := ask(ctx, s.tenant, row.name, row.spec)
			if err == nil {
				_ = s.tenant.Delete(ctx, claim)
				return fmt.Errorf("it is answered with %+v", claim.Status)
			}
			if err := refusedWith(err, row.code, row.reason, row.beside); err != nil {
				return err
			}
			details := statusOf(err).Details
			fields := 0
			for _, cause := range details.Causes {
				if strings.HasPrefix(cause.Field, "spec.scope.") {
					fields++
				}
			}
			if details.Name != row.named || row.reason == ipamv1alpha1.ReasonScopeRolesMissing && fields != 2 {
				return fmt.Errorf("the details are %+v", details)
			}
			return nil
		})
	}
	nowhere := gen.Claim("c", gen.Namespace("missing"), gen.OfClass(prefix+endpointClass))
	err := s.tenant.Create(t.Context(), nowhere)
	if details := statusOf(err).Details; !apierrors.IsNotFound(err) || details == nil || details.Kind != "namespaces" || details.Name != "missing" {
		t.Errorf("a claim that is refused, in a namespace that is missing: %v (%+v); want the 404 of the namespace", err, details)
	}
}

// statusOf returns the status of an error of a server.
func statusOf(err error) metav1.Status {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.ErrStatus
	}
	return metav1.Status{}
}

// A network of the same name in two workspaces has a pool in each.
func TestNetworks_TwoWorkspacesHaveTheirOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	prefix := s.name + "-"
	offerNetworks(t, s.platform, prefix, ipamv1alpha1.RoleProject, "2001:db8:3000::/36")
	s.platform.WaitWebhooks(t, s.tenant)
	seen := map[string]bool{}
	for _, tenant := range []*framework.Tenant{s.tenant, s.platform.Tenant(t)} {
		ready(t, tenant, prefix+endpointClass)
		claim, err := ask(t.Context(), tenant, "net", ipamv1alpha1.IPClaimSpec{ClassName: prefix + networkClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "")})
		if err != nil || !liesIn(claim.Status.AllocatedCIDR, "2001:db8:3000::/36", 48) {
			t.Fatalf("answered with %+v, %v; want a /48", claim, err)
		}
		seen[claim.Status.AllocatedCIDR] = true
		if err := tenant.Get(t.Context(), client.ObjectKey{Name: claim.Status.PoolRef.Name}, &ipamv1alpha1.IPPool{}); err != nil {
			t.Errorf("the pool of the network: %v", err)
		}
	}
	if len(seen) != 2 {
		t.Errorf("both workspaces have %v, want a range each", seen)
	}
}

// A network that is deleted is made again under its name at once, and the pool that its answer names is there.
func TestNetworks_IsMadeAgainUnderItsName(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	prefix := s.name + "-"
	offerNetworks(t, s.platform, prefix, ipamv1alpha1.RoleProject, "2001:db8:4000::/36")
	s.platform.WaitWebhooks(t, s.tenant)
	ready(t, s.tenant, prefix+endpointClass)
	for round := range 5 {
		network, err := ask(t.Context(), s.tenant, "net", ipamv1alpha1.IPClaimSpec{ClassName: prefix + networkClass, Target: ipamv1alpha1.TargetScopeRange, Scope: scope("net", "")})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if err := s.tenant.Get(t.Context(), client.ObjectKey{Name: network.Status.PoolRef.Name}, &ipamv1alpha1.IPPool{}); err != nil {
			t.Errorf("round %d: the pool of the network: %v", round, err)
		}
		inside, err := ask(t.Context(), s.tenant, fmt.Sprintf("e%d", round), ipamv1alpha1.IPClaimSpec{ClassName: prefix + endpointClass, Scope: scope("net", "ams")})
		if err != nil || !liesIn(inside.Status.AllocatedCIDR, network.Status.AllocatedCIDR, 96) {
			t.Fatalf("round %d: an endpoint is answered with %+v, %v; want a /96 of %s", round, inside, err, network.Status.AllocatedCIDR)
		}
		framework.Delete(t, s.tenant, inside)
		framework.Eventually(t, "the range to be deleted", func(ctx context.Context) error { return s.tenant.Delete(ctx, network) })
	}
}
