package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// What a tenant may not use looks to it exactly like something that does not exist: with the same status, the same
// words, and the same event. Its owner sees no trace of the attempt.
func TestIsolation_ForbiddenLooksMissing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	owner, empty := s.platform.Tenant(t), s.platform.Tenant(t)
	forOthers := gen.Consumers{"root:nobody", "root:nobody:*"}
	// No other test may hand out these addresses on the platform: the pools would mention the overlap.
	private := gen.Pool("private", gen.CIDR("198.18.0.0/16"), gen.Label("tier", "web"), gen.Backs(s.name+"-missing"))
	shared := gen.Pool("shared", gen.CIDR("198.19.0.0/16"), gen.Label("tier", "web"), gen.Visible(ipamv1alpha1.VisibilityShared), forOthers)
	ofPlatform := platformPool(s.name, s.cidr, s.name+"-unbacked")
	ofPlatform.Spec.Consumers = forOthers
	narrow := gen.Class(s.name+"-narrow", forOthers)
	hidden := gen.Class(s.name+"-hidden", gen.Visible(ipamv1alpha1.VisibilityShared), forOthers)
	own := gen.Class(s.name+"-own", gen.Visible(ipamv1alpha1.VisibilityConsumer))
	framework.Create(t, s.platform, narrow, hidden, own, gen.Class(s.name+"-unbacked"), gen.Class(s.name+"-empty"), ofPlatform)
	framework.Create(t, owner, private, shared)
	framework.WaitAllocated(t, s.platform, ofPlatform, ipamv1alpha1.ReasonAllocationSucceeded)
	for _, pool := range []*ipamv1alpha1.IPPool{private, shared} {
		framework.WaitAllocated(t, owner, pool, ipamv1alpha1.ReasonAllocationSucceeded)
		framework.WaitCondition(t, owner, pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
	}
	for _, class := range []*ipamv1alpha1.IPClass{narrow, hidden, own} {
		framework.WaitCondition(t, s.platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)
	}

	for name, row := range map[string]struct {
		forbidden, missing gen.ClaimOption
		reason             ipamv1alpha1.Reason
	}{
		"private-pool":      {gen.FromPoolIn(owner.Path, "private"), gen.FromPoolIn(empty.Path, "private"), ipamv1alpha1.ReasonPoolNotFound},
		"shared-pool":       {gen.FromPoolIn(owner.Path, "shared"), gen.FromPoolIn(empty.Path, "shared"), ipamv1alpha1.ReasonPoolNotFound},
		"platforms-pool":    {gen.FromPoolIn(s.platform.Path, s.name), gen.FromPoolIn("root:no:such", s.name), ipamv1alpha1.ReasonPoolNotFound},
		"selected-pools":    {gen.SelectingIn(owner.Path, "tier", "web"), gen.SelectingIn(empty.Path, "tier", "web"), ipamv1alpha1.ReasonPoolNotFound},
		"platform-selected": {gen.SelectingIn(s.platform.Path, "tier", "web"), gen.SelectingIn("root:no:such", "tier", "web"), ipamv1alpha1.ReasonPoolNotFound},
		"narrow-class":      {gen.OfClass(s.name + "-narrow"), gen.OfClass(s.name + "-missing"), ipamv1alpha1.ReasonClassNotFound},
		"hidden-class":      {gen.OfClass(s.name + "-hidden"), gen.OfClass(s.name + "-missing"), ipamv1alpha1.ReasonClassNotFound},
		"own-class":         {gen.OfClass(s.name + "-own"), gen.OfClass(s.name + "-missing"), ipamv1alpha1.ReasonClassNotFound},
		"pool-for-others":   {gen.OfClass(s.name + "-unbacked"), gen.OfClass(s.name + "-empty"), ipamv1alpha1.ReasonNoOfferingPool},
	} {
		forbidden, missing := gen.Claim(name+"-a", row.forbidden, gen.Length(28)), gen.Claim(name+"-b", row.missing, gen.Length(28))
		framework.Create(t, s.tenant, forbidden, missing)
		framework.WaitAllocated(t, s.tenant, forbidden, row.reason)
		framework.WaitAllocated(t, s.tenant, missing, row.reason)
		if diff := cmp.Diff(plain(missing), plain(forbidden)); diff != "" {
			t.Errorf("%s: what may not be used does not look missing (-missing +forbidden):\n%s", name, diff)
		}
	}
	s.sameEvents()
	noTrace(t, owner, private, shared)
	noTrace(t, s.platform, ofPlatform)
}

// A tenant's pool that names a class of the platform serves only that tenant.
func TestIsolation_ServesOnlyTheOwnerFromItsPool(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	pool := s.ownPool(gen.CIDR("10.0.0.0/24"), gen.Backs(s.name), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:*"})
	other := s.platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(s.name), gen.Length(28))
	framework.Create(t, other, theirs)
	framework.WaitAllocated(t, other, theirs, ipamv1alpha1.ReasonNoOfferingPool)

	ours := s.holds("ours", gen.Length(28))
	waitHeld(t, s.tenant, pool, size(blockOf(t, ours)))
	s.pool(s.cidr)
	framework.WaitBound(t, other, theirs)
	disjointIn(t, s.cidr, blockOf(t, theirs))
}

// plain returns the answer to a claim without the requested name and without times.
func plain(claim *ipamv1alpha1.IPClaim) ipamv1alpha1.IPClaimStatus {
	status := *claim.Status.DeepCopy()
	if status.ClassName != "" && status.ClassName == claim.Spec.ClassName {
		status.ClassName = "the class"
	}
	for i := range status.Conditions {
		condition := &status.Conditions[i]
		condition.LastTransitionTime = metav1.Time{}
		condition.Message = unnamed(condition.Message, claim)
	}
	return status
}

// unnamed returns a message without the class and the workspace that the claim itself names.
func unnamed(message string, claim *ipamv1alpha1.IPClaim) string {
	names := []string{claim.Spec.ClassName}
	if ref := claim.Spec.PoolRef; ref != nil && ref.ProjectRef != nil {
		names = append(names, ref.ProjectRef.Name)
	}
	if selector := claim.Spec.PoolSelector; selector != nil && selector.ProjectRef != nil {
		names = append(names, selector.ProjectRef.Name)
	}
	for _, name := range names {
		message = strings.ReplaceAll(message, `"`+name+`"`, "what it asks for")
	}
	return message
}

// sameEvents fails the test unless the events of the claims "…-a" say the same as those of the claims "…-b".
func (s scene) sameEvents() {
	s.Helper()
	c := s.tenant.Owner(s)
	claims := &ipamv1alpha1.IPClaimList{}
	must.Do(s, s.tenant.List(s.Context(), claims))
	said := map[string]string{}
	framework.Eventually(s, "an event of each refusal", func(ctx context.Context) error {
		events := &corev1.EventList{}
		if err := c.List(ctx, events); err != nil {
			return err
		}
		byClaim := map[types.UID]corev1.Event{}
		for _, event := range events.Items {
			byClaim[event.InvolvedObject.UID] = event
		}
		for _, claim := range claims.Items {
			event, ok := byClaim[claim.UID]
			if !ok {
				return errors.New("claim " + claim.Name + " has none")
			}
			said[claim.Name] = event.Type + " " + event.Reason + " " + unnamed(event.Message, &claim)
		}
		return nil
	})
	for _, claim := range claims.Items {
		if pair, ok := strings.CutSuffix(claim.Name, "-a"); ok && said[claim.Name] != said[pair+"-b"] {
			s.Errorf("%s: the event is %q; want %q, as of what is missing", pair, said[claim.Name], said[pair+"-b"])
		}
	}
}

// noTrace fails the test if a pool has been written since it was read, or has an event.
func noTrace(t *testing.T, owner userOf, pools ...*ipamv1alpha1.IPPool) {
	t.Helper()
	for _, pool := range pools {
		now := &ipamv1alpha1.IPPool{}
		must.Do(t, owner.Get(t.Context(), client.ObjectKeyFromObject(pool), now))
		if now.ResourceVersion != pool.ResourceVersion {
			t.Errorf("pool %s was written:\nbefore %+v\nafter  %+v", pool.Name, pool.Status, now.Status)
		}
		events := &corev1.EventList{}
		must.Do(t, owner.User(t, "cluster-admin").List(t.Context(), events))
		for _, event := range events.Items {
			if event.InvolvedObject.UID == pool.UID && event.Reason != string(ipamv1alpha1.ReasonPoolCreated) {
				t.Errorf("pool %s has the event %s: %s", pool.Name, event.Reason, event.Message)
			}
		}
	}
}

// userOf is a workspace that can give out further users.
type userOf interface {
	client.Reader
	User(t testing.TB, roles ...string) client.WithWatch
}
