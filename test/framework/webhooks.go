package framework

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// WaitWebhooks waits until kcp asks the webhooks of the controller, which runs, about the claims
// that these clients create in the namespace default. Without a client, the registration will do.
func (p *Platform) WaitWebhooks(t testing.TB, clients ...client.Client) {
	t.Helper()
	admin := p.Admin(t)
	Eventually(t, "the webhooks to be registered", func(ctx context.Context) error { return p.registered(ctx, admin) })
	p.WaitAsked(t, clients...)
}

// WaitAsked waits until the server asks the webhooks of the controller, wherever they are, about the claims that
// these clients create in the namespace default.
func (p *Platform) WaitAsked(t testing.TB, clients ...client.Client) {
	t.Helper()
	for _, c := range clients {
		Eventually(t, "the webhooks to be asked", func(ctx context.Context) error {
			asked := p.AnswersGiven(t)
			if err := c.Create(ctx, gen.Claim("asks"), client.DryRunAll); err != nil {
				return err
			}
			if p.AnswersGiven(t) == asked {
				return fmt.Errorf("they were asked %d times before, and no more", asked)
			}
			return nil
		})
	}
}

// registered returns an error if kcp does not know the webhooks of the controller.
func (p *Platform) registered(ctx context.Context, admin client.Client) error {
	key := client.ObjectKey{Name: ipamv1alpha1.GroupName}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := admin.Get(ctx, key, mutating); err != nil {
		return err
	}
	if err := admin.Get(ctx, key, validating); err != nil {
		return err
	}
	for _, webhook := range mutating.Webhooks {
		if url := webhook.ClientConfig.URL; url == nil || !strings.HasPrefix(*url, p.controller.Webhooks()+"/") {
			return fmt.Errorf("%s is not at %s", webhook.Name, p.controller.Webhooks())
		}
	}
	return nil
}

var answersLine = regexp.MustCompile(`(?m)^ipam_create_answers_total\{result="\w+"\} (\d+)$`)

// AnswersGiven returns how often the controller was asked to answer the CREATE of a claim, whatever
// the answer was.
func (p *Platform) AnswersGiven(t testing.TB) int {
	t.Helper()
	total := 0
	for _, match := range answersLine.FindAllStringSubmatch(p.Metrics(t), -1) {
		count, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatalf("Atoi: %v", err)
		}
		total += count
	}
	return total
}

// WebhookToken returns the secret part of the paths of the webhooks.
func (p *Platform) WebhookToken(t testing.TB) string {
	t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: workspaces.ControllerNamespace, Name: "ipam-webhook"}
	if err := p.Admin(t).Get(t.Context(), key, secret); err != nil {
		t.Fatalf("Get: %v", err)
	}
	return string(secret.Data["token"])
}
