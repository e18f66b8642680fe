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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// webhookTimeout is how long kcp waits for a webhook, and slack what a busy machine may add.
const (
	webhookTimeout = 2 * time.Second
	slack          = 3 * time.Second
)

// The tests share one platform, whose webhooks are registered, with a class, a pool and a tenant: each follows the one
// before, and leaves the controller running.
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
		{"Off", webhooksOff}, // the last: the controller that answers has ended
	} {
		if !t.Run(test.name, func(t *testing.T) { test.run(t, platform, tenant) }) {
			return
		}
	}
}

// kcp asks the webhook about each CREATE, in a tenant's workspace and on the platform, and takes
// the name that it gives to a claim with generateName.
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

// While nobody listens, CREATE passes at once, and the claim is bound when the controller is back. One that says Refuse is
// refused by kcp, with the URL of the webhook, but without the secret part of its path.
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
	// The machine may be busy for a moment: the fastest one counts.
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

// While the webhook hangs, CREATE passes after the timeout, and the claim is bound afterwards.
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

// A controller that is told to serve no webhooks removes what another has registered.
func webhooksOff(t *testing.T, platform *framework.Platform, _ *framework.Tenant) {
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
