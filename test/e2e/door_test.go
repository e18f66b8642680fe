package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The servers apply the rules that package config tests: limits, words and rules of each kind, in a tenant's
// workspace and on the platform alike, with a message that says what to write instead.
func TestDoor_AppliesTheRulesOfPackageConfig(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	admin := framework.Admin(t, platform.Path)
	for _, row := range []struct {
		object client.Object
		says   string
	}{
		{gen.Pool(name, gen.CIDR("10.0.0.1/24")), "invalid CIDR: 10.0.0.1/24 is not in network form; write 10.0.0.0/24"},
		{gen.Pool(name, gen.Strategy("Random")), `Unsupported value: "Random"`},
		{gen.Pool(name, gen.ChildOf("parent", 129)), "should be less than or equal to 128"},
		{gen.Claim(name, gen.OfClass("a"), gen.FromPool("b")), "exclude each other: give one of them, or none for the default class"},
		{gen.Claim(name, gen.Family("ipv4")), `Unsupported value: "ipv4"`},
		{gen.Claim(name, gen.Length(129)), "should be less than or equal to 128"},
		{gen.Class(name, gen.Lengths{Min: 28, Max: 24}), "min must not exceed max"},
		{gen.Class(name, gen.Family("")), `Unsupported value: ""`},
	} {
		_, isClass := row.object.(*ipamv1alpha1.IPClass)
		for where, c := range map[string]client.Client{tenant.Path: tenant, platform.Path: admin} {
			if isClass && where == tenant.Path {
				continue // classes are made only on the platform
			}
			object := row.object.DeepCopyObject().(client.Object)
			isRefused(t, c.Create(t.Context(), object), row.says, "create %T in %s", object, where)
		}
	}
}

// Only the platform can make a pool for all workspaces, and slices.
func TestDoor_RefusesPlatformFieldsFromTenants(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	tenant := platform.Tenant(t)
	for who, c := range map[string]client.Client{
		"a user": tenant, "the owner": tenant.Owner(t), "kcp's admin": framework.Admin(t, tenant.Path),
	} {
		forAll := gen.Pool("for-all", gen.Visible(ipamv1alpha1.VisibilityPlatform))
		isRefused(t, c.Create(t.Context(), forAll), `Unsupported value: "platform"`, "%s makes a platform pool", who)
		sliced := gen.Pool("sliced", gen.Slices(24))
		isRefused(t, c.Create(t.Context(), sliced), "spec.slices is not allowed outside the platform workspace", "%s makes slices", who)
	}
	own := gen.Pool("own")
	framework.Allocate(t, tenant, own)
	own.Spec.Visibility = ipamv1alpha1.VisibilityPlatform
	isRefused(t, tenant.Update(t.Context(), own), `Unsupported value: "platform"`, "a user makes a pool the platform's")

	name := framework.Name(t)
	there := tenant.In(t, platform.Path)
	for _, object := range []client.Object{gen.Class(name), platformPool(name, platform.CIDR(t))} {
		if err := there.Create(t.Context(), object); !apierrors.IsForbidden(err) {
			t.Errorf("a tenant's user creates %T on the platform: %v; want Forbidden", object, err)
		}
	}
}

// Immutable fields stay as they were written.
func TestDoor_RefusesToChangeImmutableFields(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	tenant := platform.Tenant(t)
	class := gen.Class(name)
	pool, claim := gen.Pool("pool"), gen.Claim("web", gen.OfClass("none"), gen.Length(28))
	framework.Create(t, platform, class)
	framework.Create(t, tenant, pool, claim)

	for _, row := range []struct {
		object client.Object
		patch  string
		says   string
	}{
		{pool, `{"cidr": "10.1.0.0/16"}`, "spec.cidr is immutable"},
		{claim, `{"className": "other"}`, "spec.className is immutable"},
		{claim, `{"prefixLength": null}`, "spec.prefixLength is immutable: create another claim"},
		{class, `{"ipFamily": "IPv6"}`, "spec.ipFamily is immutable"},
	} {
		c := client.Client(tenant)
		if row.object == class {
			c = platform
		}
		object := row.object.DeepCopyObject().(client.Object)
		err := c.Patch(t.Context(), object, merge(`{"spec": `+row.patch+`}`))
		isRefused(t, err, row.says, "patch %T with %s", object, row.patch)
	}
	must.Do(t, tenant.Patch(t.Context(), claim, merge(`{"spec": {"reclaimPolicy": "Retain"}}`)))
}

// No user can delete a pool that holds blocks. Once these are released, the pool can be deleted.
func TestDoor_RefusesToDeleteAPoolInUse(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	shared := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	own := gen.Pool("own")
	framework.Create(t, tenant, own)
	byClass, byPool := gen.Claim("by-class", gen.OfClass(name), gen.Length(28)), gen.Claim("by-pool", gen.FromPool("own"), gen.Length(28))
	framework.Bind(t, tenant, byClass, byPool)

	for _, row := range []struct {
		c     client.Client
		admin client.Client
		pool  *ipamv1alpha1.IPPool
		claim *ipamv1alpha1.IPClaim
		says  string
	}{
		{tenant, framework.Admin(t, tenant.Path), own, byPool, "claim default/by-pool"},
		{platform, framework.Admin(t, platform.Path), shared, byClass, "(the pool holds 1 block)"},
	} {
		framework.WaitCondition(t, row.c, row.pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonInUse)
		for _, c := range []client.Client{row.c, row.admin} {
			err := c.Delete(t.Context(), row.pool)
			isRefused(t, err, "this pool is in use: release its claims and child pools first", "delete pool %s", row.pool.Name)
			isRefused(t, err, row.says, "delete pool %s", row.pool.Name)
		}
		framework.Delete(t, tenant, row.claim)
		framework.WaitCondition(t, row.c, row.pool, ipamv1alpha1.ConditionInUse, ipamv1alpha1.ReasonUnused)
		framework.Delete(t, row.c, row.pool)
		framework.WaitGone(t, row.c, row.pool)
	}
}

// isRefused fails the test unless err refuses an object with this text.
func isRefused(t *testing.T, err error, says, what string, args ...any) {
	t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
		t.Errorf(what+": %v; want a refusal that says %q", append(args, err, says)...)
	}
}

// webhookTimeout is how long kcp waits for a webhook, and slack is what a busy machine may add.
const (
	webhookTimeout = 2 * time.Second
	slack          = 3 * time.Second
)

// The tests share one platform, whose webhooks are registered, with a class, a pool and a tenant. They run in order,
// and each leaves the controller running.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	offer(t, platform, "web", platform.CIDR(t), gen.DefaultLength(28))
	tenant := platform.Tenant(t)
	platform.WaitWebhooks(t, tenant)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *framework.Platform, *framework.Tenant)
	}{
		{"AreAsked", areAsked},
		{"Down", webhooksDown},
		{"Hanging", webhooksHanging},
		{"Restarting", webhooksRestarting},
		{"Off", webhooksOff}, // the last: it ends the controller that answers
	} {
		if !t.Run(test.name, func(t *testing.T) { test.run(t, platform, tenant) }) {
			return
		}
	}
}

// kcp asks the webhook about each CREATE, in a tenant's workspace and on the platform. A claim with generateName
// keeps the name that the webhook gives it.
func areAsked(t *testing.T, platform *framework.Platform, tenant *framework.Tenant) {
	admin := framework.Admin(t, platform.Path)
	platform.WaitWebhooks(t, admin)
	asked := platform.AnswersGiven(t)
	claims := []*ipamv1alpha1.IPClaim{gen.Claim("a", gen.OfClass("web")), gen.Claim("", gen.OfClass("web")), gen.Claim("b", gen.OfClass("web"))}
	claims[1].GenerateName = "made-"
	for i, c := range []client.Client{tenant, tenant, admin} {
		framework.Bind(t, c, claims[i])
	}
	if !regexp.MustCompile(`^made-[a-z0-9]{5}$`).MatchString(claims[1].Name) {
		t.Errorf("the claim with generateName made- is called %q, want five characters after it", claims[1].Name)
	}
	if got := platform.AnswersGiven(t) - asked; got != len(claims) {
		t.Errorf("the webhook was asked %d times, want %d", got, len(claims))
	}
}

// While the controller is down, CREATE passes at once, and the claim is bound when the controller is back. kcp
// refuses a claim with the policy Refuse, and its error does not show the secret part of the webhook's path.
func webhooksDown(t *testing.T, platform *framework.Platform, tenant *framework.Tenant) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: workspaces.ControllerNamespace, Name: "ipam-webhook"}}
	framework.Read(t, platform.Admin(t), secret)
	token := string(secret.Data["token"]) // the secret part of the paths of the webhooks
	platform.KillController(t)
	claims := []*ipamv1alpha1.IPClaim{gen.Claim("down-a", gen.OfClass("web")), gen.Claim("down-b", gen.OfClass("web")), gen.Claim("down-c", gen.OfClass("web"))}
	took := make([]time.Duration, len(claims))
	for i, claim := range claims {
		took[i] = createTime(t, tenant, claim)
	}
	for _, claim := range claims {
		unanswered(t, claim)
	}
	// The machine may be busy for a moment, so only the fastest CREATE counts.
	if slices.Min(took) > webhookTimeout/2 {
		t.Errorf("each CREATE took %s while nobody listens, want less than %s", took, webhookTimeout/2)
	}
	err := tenant.Create(t.Context(), gen.Claim("refuse", gen.OfClass("web"), gen.Unmet(ipamv1alpha1.UnmetRefuse)))
	if err == nil || !strings.Contains(err.Error(), "refuse."+ipamv1alpha1.GroupName) || strings.Contains(err.Error(), token) {
		t.Errorf("CREATE = %v, want an error of the webhook refuse without %s", err, token)
	}
	platform.StartController(t)
	framework.WaitBound(t, tenant, claims...)
	platform.WaitWebhooks(t, tenant)
}

// unanswered fails the test unless a new object has the condition which says that it got no answer. That condition is
// not a status that a user has sent.
func unanswered(t *testing.T, claim *ipamv1alpha1.IPClaim) {
	t.Helper()
	ready := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionReady)
	if len(claim.Status.Conditions) != 1 || ready == nil || ready.Status != metav1.ConditionUnknown || ready.Reason != string(ipamv1alpha1.ReasonPending) {
		t.Errorf("CREATE of %s is answered with the conditions %v; want Ready=Unknown alone, for the reason Pending", claim.Name, claim.Status.Conditions)
	}
}

// While the webhook hangs, CREATE passes after the timeout, and the claim is bound later.
func webhooksHanging(t *testing.T, platform *framework.Platform, tenant *framework.Tenant) {
	platform.PauseController(t)
	claim := gen.Claim("hanging", gen.OfClass("web"))
	took := createTime(t, tenant, claim)
	platform.ResumeController(t)
	if took > webhookTimeout+slack {
		t.Errorf("CREATE took %s while the webhook hangs, want about %s", took, webhookTimeout)
	}
	framework.WaitBound(t, tenant, claim)
}

// Every CREATE passes while the controller is killed and started again, and every claim is bound.
func webhooksRestarting(t *testing.T, platform *framework.Platform, tenant *framework.Tenant) {
	ctx, stop := context.WithCancel(t.Context())
	made := make(chan []*ipamv1alpha1.IPClaim)
	go func() {
		var claims []*ipamv1alpha1.IPClaim
		for i := 0; ctx.Err() == nil; i++ {
			claim := gen.Claim(fmt.Sprint("restarting-", i), gen.OfClass("web"))
			if err := tenant.Create(t.Context(), claim); err != nil {
				t.Errorf("create claim %s: %v", claim.Name, err)
				break
			}
			claims = append(claims, claim)
		}
		made <- claims
	}()
	for range 2 {
		platform.KillController(t)
		platform.StartController(t)
		platform.WaitWebhooks(t)
	}
	stop()
	claims := <-made
	if len(claims) == 0 {
		t.Error("no claim was made meanwhile")
	}
	framework.WaitBound(t, tenant, claims...)
}

// A controller that is told to serve no webhooks removes those that another controller has registered.
func webhooksOff(t *testing.T, platform *framework.Platform, _ *framework.Tenant) {
	platform.StopController(t)
	off := platform.Replica(t, "off", "--webhook-bind-address=0")
	off.StartController(t)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	configuration.Name = ipamv1alpha1.GroupName
	framework.WaitGone(t, framework.Admin(t, platform.Path), configuration)
}

// createTime returns how long the CREATE of a claim takes. It must succeed.
func createTime(t *testing.T, c client.Client, claim *ipamv1alpha1.IPClaim) time.Duration {
	t.Helper()
	begun := time.Now()
	framework.Create(t, c, claim)
	return time.Since(begun)
}
