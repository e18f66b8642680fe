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
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// webhookTimeout is how long kcp waits for a webhook, and slack what a busy machine may add.
const (
	webhookTimeout = 2 * time.Second
	slack          = 3 * time.Second
)

// webhookScene is a platform of its own, whose webhooks are registered, with a class, a pool and
// a tenant.
func webhookScene(t *testing.T) (*framework.Platform, *framework.Tenant) {
	t.Helper()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	offer(t, platform, "web", platform.CIDR(t), gen.DefaultLength(28))
	tenant := platform.Tenant(t)
	platform.WaitWebhooks(t, tenant)
	return platform, tenant
}

// kcp asks the webhook about each CREATE, in a tenant's workspace and on the platform, and takes
// the name that it gives to a claim with generateName.
func TestWebhooks_AreAsked(t *testing.T) {
	t.Parallel()
	platform, tenant := webhookScene(t)
	admin := framework.Admin(t, platform.Path)
	platform.WaitWebhooks(t, admin)
	asked := platform.AnswersGiven(t)
	claims := []*ipamv1alpha1.IPClaim{gen.Claim("a", gen.OfClass("web")), gen.Claim("", gen.OfClass("web")), gen.Claim("b", gen.OfClass("web"))}
	claims[1].GenerateName = "made-"
	for i, c := range []client.Client{tenant, tenant, admin} {
		framework.Create(t, c, claims[i])
		framework.WaitBound(t, c, claims[i])
	}
	if !regexp.MustCompile(`^made-[a-z0-9]{5}$`).MatchString(claims[1].Name) {
		t.Errorf("the claim with generateName made- is called %q, want five characters after it", claims[1].Name)
	}
	if got := platform.AnswersGiven(t) - asked; got != len(claims) {
		t.Errorf("the webhook was asked %d times, want %d", got, len(claims))
	}
}

// A status that a client sends is not stored: neither by CREATE nor by UPDATE.
func TestWebhooks_ForgedStatus(t *testing.T) {
	t.Parallel()
	_, tenant := webhookScene(t)
	const forged = "192.0.2.0/28"
	claim := gen.Claim("a", gen.OfClass("web"))
	claim.Status = ipamv1alpha1.IPClaimStatus{Phase: ipamv1alpha1.ClaimBound, AllocatedCIDR: forged}
	framework.Create(t, tenant, claim)
	if claim.Status.AllocatedCIDR == forged {
		t.Errorf("CREATE has stored the status of the client: %+v", claim.Status)
	}
	framework.WaitBound(t, tenant, claim)
	held := claim.Status.AllocatedCIDR
	for what, change := range map[string]func(){
		"another block": func() { claim.Status.AllocatedCIDR = forged },
		"no status":     func() { claim.Status = ipamv1alpha1.IPClaimStatus{} },
	} {
		framework.Eventually(t, "an update with "+what, func(ctx context.Context) error {
			if err := tenant.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
				return err
			}
			change()
			return tenant.Update(ctx, claim)
		})
		framework.Read(t, tenant, claim)
		if claim.Status.AllocatedCIDR != held || claim.Status.Phase != ipamv1alpha1.ClaimBound {
			t.Errorf("after an update with %s the status is %+v, want %s and Bound", what, claim.Status, held)
		}
	}
}

// While nobody listens, CREATE passes at once, and the claim is bound when the controller is back.
func TestWebhooks_Down(t *testing.T) {
	t.Parallel()
	platform, tenant := webhookScene(t)
	framework.Create(t, tenant, gen.Claim("before", gen.OfClass("web")))
	platform.KillController(t)
	claims := []*ipamv1alpha1.IPClaim{gen.Claim("a", gen.OfClass("web")), gen.Claim("b", gen.OfClass("web")), gen.Claim("c", gen.OfClass("web"))}
	took := make([]time.Duration, len(claims))
	for i, claim := range claims {
		took[i] = createTime(t, tenant, claim)
	}
	// The machine may be busy for a moment: the fastest one counts.
	if slices.Min(took) > webhookTimeout/2 {
		t.Errorf("each CREATE took %s while nobody listens, want less than %s", took, webhookTimeout/2)
	}
	platform.StartController(t)
	framework.WaitBound(t, tenant, claims...)
}

// While the webhook hangs, CREATE passes after the timeout, and the claim is bound afterwards.
func TestWebhooks_Hanging(t *testing.T) {
	t.Parallel()
	platform, tenant := webhookScene(t)
	platform.PauseController(t)
	claim := gen.Claim("a", gen.OfClass("web"))
	took := createTime(t, tenant, claim)
	platform.ResumeController(t)
	if took > webhookTimeout+slack {
		t.Errorf("CREATE took %s while the webhook hangs, want about %s", took, webhookTimeout)
	}
	framework.WaitBound(t, tenant, claim)
}

// Every CREATE passes while the controller is killed and started again, and every claim is bound.
func TestWebhooks_Restarting(t *testing.T) {
	t.Parallel()
	platform, tenant := webhookScene(t)
	ctx, stop := context.WithCancel(t.Context())
	made := make(chan []*ipamv1alpha1.IPClaim)
	go func() {
		var claims []*ipamv1alpha1.IPClaim
		for i := 0; ctx.Err() == nil; i++ {
			claim := gen.Claim(fmt.Sprint("a", i), gen.OfClass("web"))
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

// While nobody can answer, a claim that says Refuse is refused, by kcp and with the URL of the
// webhook. The secret part of the other paths is no part of it.
func TestWebhooks_RefuseWhileDown(t *testing.T) {
	t.Parallel()
	platform, tenant := webhookScene(t)
	token := platform.WebhookToken(t)
	platform.KillController(t)
	claim := gen.Claim("a", gen.OfClass("web"))
	claim.Spec.UnmetPolicy = ipamv1alpha1.UnmetRefuse
	err := tenant.Create(t.Context(), claim)
	if err == nil || !strings.Contains(err.Error(), "refuse."+ipamv1alpha1.GroupName) || strings.Contains(err.Error(), token) {
		t.Errorf("CREATE = %v, want an error of the webhook refuse without %s", err, token)
	}
}

// A controller that is told to serve no webhooks removes what another has registered.
func TestWebhooks_Off(t *testing.T) {
	t.Parallel()
	platform, _ := webhookScene(t)
	platform.StopController(t)
	off := platform.Replica(t, "off", "--webhook-bind-address=0")
	off.StartController(t)
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{}
	configuration.Name = ipamv1alpha1.GroupName
	framework.WaitGone(t, framework.Admin(t, platform.Path), configuration)
}

// createTime is how long the CREATE of a claim takes. It must succeed.
func createTime(t *testing.T, c client.Client, claim *ipamv1alpha1.IPClaim) time.Duration {
	t.Helper()
	begun := time.Now()
	framework.Create(t, c, claim)
	return time.Since(begun)
}
