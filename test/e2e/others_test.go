package e2e

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// member is one of two tenants of a platform. Its word occurs in each name that it gives, and in its path.
type member struct {
	*viewer
	word   string
	number int
	lender string // the path of the workspace that lends a pool to both
	asks   []question
}

// question is a dry run whose answer might tell something about others.
type question struct {
	name string
	ask  func(context.Context, client.Client) (string, error)
}

// Two tenants have claims, pools and networks in the same pools of a platform, and in a pool that a third tenant
// lends to both. The objects that one of them makes and releases change nothing that the other can read: no object of
// any kind that its workspace serves, no event, no warning and no refusal. So the other can learn neither number nor
// time. Nor does anything name the other's workspace, objects or addresses. Only the lender sees how much of its own
// pool is used.
func TestIsolation_NothingOfOthersCanBeRead(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	nets := offerAll(t, platform)
	lender := newViewer(t, platform.Tenant(t))
	framework.Allocate(t, lender.tenant, gen.Pool("lent", gen.CIDR("192.168.0.0/16"), gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:*"}))
	framework.Bind(t, lender.tenant, gen.Claim("fills", gen.OfClass("full"), gen.Length(28)))
	members := []*member{}
	for i, word := range []string{"zulu", "yankee"} {
		m := &member{word: word, number: i, lender: lender.tenant.Path}
		m.viewer = newViewer(t, platform.TenantAt(t, "root:"+word+"-"+framework.Name(t)))
		m.settle(t, platform, nets)
		members = append(members, m)
	}
	a, b := members[0], members[1]
	held := gen.Claim("zulu-range", gen.OfClass("net"), gen.ForRange(), gen.Within("network", "lobby"))
	framework.Bind(t, a.tenant, held)
	a.asks = append(a.asks, question{"DELETE of a range with claims of others", func(ctx context.Context, c client.Client) (string, error) {
		return "", c.Delete(ctx, held.DeepCopy(), client.DryRunAll)
	}})
	b.asks = append(b.asks, question{"CREATE of a range that is held", func(ctx context.Context, c client.Client) (string, error) {
		return "", c.Create(ctx, gen.Claim("yankee-range", gen.OfClass("net"), gen.ForRange(), gen.Within("network", "lobby")), client.DryRunAll)
	}})
	for _, turn := range [][2]*member{{a, b}, {b, a}} {
		acts, looks := turn[0], turn[1]
		before, lent := looks.settled(t), withoutUse(t, lender.settled(t))
		answers := looks.answers(t)
		release := acts.act(t, platform)
		secrets := acts.secrets(t, acts.word)
		compare := func(when string) {
			unread(t, looks.tenant.Path+", "+when, before, looks.settled(t), secrets)
			unread(t, "the lender, "+when, lent, withoutUse(t, lender.settled(t)), secrets)
			again := looks.answers(t)
			if diff := cmp.Diff(answers, again); diff != "" {
				t.Errorf("%s, %s is answered otherwise (-before +after):\n%s", when, looks.tenant.Path, diff)
			}
			tellsNothing(t, "an answer", again, secrets)
		}
		compare("when " + acts.word + " has made its objects")
		release()
		compare("when " + acts.word + " has released them")
	}
}

// unread fails the test if a view has changed, or contains a secret.
func unread(t *testing.T, whose string, before, after view, secrets []*regexp.Regexp) {
	t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the view of %s, is another (-before +after):\n%s", whose, diff)
	}
	for key, object := range after {
		tellsNothing(t, whose+": "+key, object, secrets)
	}
}

// withoutUse removes what the owner of a shared pool may know of its use: how much of the pool is used, by how many
// holders, and when that changed.
func withoutUse(t *testing.T, of view) view {
	t.Helper()
	for _, pool := range of.of("ippools") {
		if pool.GetName() != "lent" {
			continue
		}
		pool.SetResourceVersion("")
		pool.SetManagedFields(nil)
		for _, field := range []string{"capacity", "utilizationPercent", "largestFreePrefix", "ledger"} {
			unstructured.RemoveNestedField(pool.Object, "status", field)
		}
		conditions, _, _ := unstructured.NestedSlice(pool.Object, "status", "conditions")
		for _, condition := range conditions {
			condition := condition.(map[string]any)
			if condition["type"] != ipamv1alpha1.ConditionInUse {
				continue
			}
			if says := condition["message"].(string); !regexp.MustCompile(`^(the pool holds \d+ blocks?|the pool holds no block)$`).MatchString(says) {
				t.Errorf("the lender is told %q; want a number of blocks alone", says)
			}
			clear(condition)
		}
		must.Do(t, unstructured.SetNestedSlice(pool.Object, conditions, "status", "conditions"))
	}
	return of
}

// answers asks all questions, and returns the answers and all warnings.
func (m *member) answers(t *testing.T) map[string]string {
	t.Helper()
	said, before := map[string]string{}, len(m.heard.all())
	for _, q := range m.asks {
		err := framework.Patiently(t, func(ctx context.Context) (err error) {
			said[q.name], err = q.ask(ctx, m.c)
			return err
		})
		if err != nil {
			said[q.name] = err.Error()
		}
	}
	for i, warning := range m.heard.all()[before:] {
		said[fmt.Sprint("warning ", i)] = warning
	}
	return said
}

// ofClaim returns a question for the answer to a claim. It fails if there is no answer.
func ofClaim(claim *ipamv1alpha1.IPClaim) func(context.Context, client.Client) (string, error) {
	return func(ctx context.Context, c client.Client) (string, error) {
		probe := claim.DeepCopy()
		if err := c.Create(ctx, probe, client.DryRunAll); err != nil {
			return "", err
		}
		allocated := meta.FindStatusCondition(probe.Status.Conditions, ipamv1alpha1.ConditionAllocated)
		if allocated == nil {
			return "", errors.New("the CREATE was not answered in time")
		}
		return allocated.Reason + ": " + allocated.Message, nil
	}
}

// offerAll offers everything that tenants can share on a platform, and returns the address space of the shared
// networks. The class counted shows how many pools it has made, because not every workspace can read it.
func offerAll(t *testing.T, platform *framework.Platform) (nets ipamv1alpha1.CIDR) {
	t.Helper()
	everybody := gen.Consumers{"root:*"}
	framework.Create(t, platform,
		gen.Class("flat", gen.MaxPerConsumer("512")), gen.Class("full"),
		gen.Class("net", gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleAllProjects)),
		gen.Class("nic", gen.DefaultLength(32), gen.Below("net")),
		gen.Class("vpc", gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleProject)),
		gen.Class("port", gen.DefaultLength(32), gen.Below("vpc")),
		gen.Class("vrf", gen.DefaultLength(32), gen.UniqueWithin("vrf")),
		gen.Class("counted", gen.DefaultLength(24), gen.PoolPer("network", ipamv1alpha1.RoleAllProjects), everybody))
	nets = platform.CIDR(t)
	sliced := platformPool("sliced", platform.CIDR(t))
	sliced.Spec.Slices = &ipamv1alpha1.PoolSlices{PrefixLength: 24}
	framework.Allocate(t, platform, sliced,
		platformPool("flat", platform.CIDR(t), "flat"), platformPool("full", part(platform.CIDR(t), 28), "full"),
		platformPool("nets", nets, "net", "counted"), platformPool("vpcs", platform.CIDR(t), "vpc"), platformPool("vrfs", platform.CIDR(t), "vrf"))
	return nets
}

// settle gives the member something in every pool, and questions about them.
func (m *member) settle(t *testing.T, platform *framework.Platform, nets ipamv1alpha1.CIDR) {
	t.Helper()
	platform.WaitWebhooks(t, m.tenant)
	m.makes(t, "home", 18)
	overlapping := gen.Pool(m.word+"-overlapping", gen.CIDR(nets))
	framework.Allocate(t, m.tenant, overlapping)
	framework.WaitAllocated(t, m.tenant, gen.Pool("sliced"), ipamv1alpha1.ReasonAllocationSucceeded)
	stays := gen.Claim(m.word+"-stays", gen.OfClass("flat"), gen.Length(28), gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	framework.Bind(t, m.tenant, stays)
	framework.Delete(t, m.tenant, stays)
	m.asks = []question{
		{"CREATE in a full pool", ofClaim(gen.Claim("probe", gen.OfClass("full"), gen.Length(28)))},
		{"CREATE in a full pool, which is refused", ofClaim(gen.Claim("probe", gen.OfClass("full"), gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse)))},
		{"CREATE beyond the limit", ofClaim(gen.Claim("probe", gen.OfClass("flat"), gen.Length(22)))},
		{"CREATE of a pool that overlaps the platform's", func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Create(ctx, gen.Pool("probe", gen.CIDR(nets)), client.DryRunAll)
		}},
		{"DELETE of a pool that is used", func(ctx context.Context, c client.Client) (string, error) {
			return "", c.Delete(ctx, gen.Pool(m.word+"-home-own"), client.DryRunAll)
		}},
	}
}

// makes makes claims, pools and networks of every kind, and returns the objects in the order in which they can be deleted.
func (m *member) makes(t *testing.T, what string, octet int) (made []client.Object) {
	t.Helper()
	name := m.word + "-" + what
	named := func(kind string) string { return name + "-" + kind }
	namespace := &corev1.Namespace{}
	namespace.Name = name
	framework.Create(t, m.tenant, namespace)
	lent := gen.Pool(named("lent"), gen.ChildOf("lent", 28))
	lent.Spec.ParentPoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: m.lender}
	pools := []*ipamv1alpha1.IPPool{gen.Pool(named("own"), gen.CIDR(ipamv1alpha1.CIDR(fmt.Sprintf("172.%d.0.0/16", octet+m.number)))), gen.Pool(named("child"), gen.ChildOf(named("own"), 28)), gen.Pool(named("carved"), gen.CarvedBy("flat", 28)), lent}
	framework.Allocate(t, m.tenant, pools...)
	shared, private := gen.Within("network", name), gen.Within("network", name)
	claims := []*ipamv1alpha1.IPClaim{
		gen.Claim(named("range"), gen.OfClass("vpc"), gen.ForRange(), private),
		gen.Claim(named("shared"), gen.OfClass("net"), gen.ForRange(), shared),
		gen.Claim(named("port"), gen.OfClass("port"), private),
		gen.Claim(named("nic"), gen.OfClass("nic"), shared),
		gen.Claim(named("lobby"), gen.OfClass("nic"), gen.Within("network", "lobby")),
		gen.Claim(named("vrf"), gen.OfClass("vrf"), gen.Within("vrf", name)),
		gen.Claim(named("flat"), gen.OfClass("flat"), gen.Length(28), gen.Namespace(name)),
		gen.Claim(named("lent"), gen.FromPoolIn(m.lender, "lent"), gen.Length(30)),
		gen.Claim(named("own"), gen.FromPool(named("own")), gen.Length(30)),
	}
	framework.Bind(t, m.tenant, claims...)
	waiting := gen.Claim(named("waiting"), gen.OfClass("full"), gen.Length(28))
	framework.Create(t, m.tenant, waiting)
	framework.WaitAllocated(t, m.tenant, waiting, ipamv1alpha1.ReasonPoolExhausted)
	made = append(made, waiting)
	for _, claim := range slices.Backward(claims) {
		made = append(made, claim)
	}
	for _, pool := range slices.Backward(pools) {
		made = append(made, pool)
	}
	return made
}

// act makes objects, and two networks one after the other. It returns once the platform has counted each network, as
// it counts the pools of other classes. The returned function releases everything.
func (m *member) act(t *testing.T, platform *framework.Platform) (release func()) {
	t.Helper()
	made := m.makes(t, "away", 20)
	counted := gen.Class("counted")
	framework.Read(t, platform, counted)
	for n := range 2 {
		network := gen.Claim(fmt.Sprint(m.word, "-counted-", n), gen.OfClass("counted"), gen.ForRange(), gen.Within("network", fmt.Sprint(m.word, n)))
		framework.Bind(t, m.tenant, network)
		before := counted.Status.ProvisionedPools
		framework.WaitWhile(t, platform, counted, "it does not count the new network", func(class *ipamv1alpha1.IPClass) bool {
			return class.Status.ProvisionedPools == before
		})
		made = append(made, network)
	}
	return func() {
		for _, object := range made {
			framework.Eventually(t, object.GetName()+" to be deleted", func(ctx context.Context) error {
				return client.IgnoreNotFound(m.tenant.Delete(ctx, object)) // which is refused while a pool is used
			})
			framework.WaitGone(t, m.tenant, object)
		}
		m.settled(t)
	}
}
