package framework

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
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
func (c Controller) WaitAsked(t testing.TB, clients ...client.Client) {
	t.Helper()
	for _, asks := range clients {
		Eventually(t, "the webhooks to be asked", func(ctx context.Context) error {
			asked := c.AnswersGiven(t)
			if err := asks.Create(ctx, gen.Claim("asks"), client.DryRunAll); err != nil {
				return err
			}
			if c.AnswersGiven(t) == asked {
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
		if url := webhook.ClientConfig.URL; url == nil || !strings.HasPrefix(*url, p.process.Webhooks()+"/") {
			return fmt.Errorf("%s is not at %s", webhook.Name, p.process.Webhooks())
		}
	}
	return nil
}

var answersLine = regexp.MustCompile(`(?m)^ipam_create_answers_total\{result="\w+"\} (\d+)$`)

// AnswersGiven returns how often the controller was asked to answer the CREATE of a claim, whatever
// the answer was.
func (c Controller) AnswersGiven(t testing.TB) int {
	t.Helper()
	total := 0
	for _, match := range answersLine.FindAllStringSubmatch(c.Metrics(t), -1) {
		count := must.Get(strconv.Atoi(match[1]))(t)
		total += count
	}
	return total
}
