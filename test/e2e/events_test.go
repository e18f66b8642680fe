package e2e

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A refusal is told by an event beside the claim; a claim that is met has none.
func TestEvents_OfRefusal(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)

	met := gen.Claim("met", gen.OfClass(name), gen.Length(28))
	refused := gen.Claim("refused", gen.OfClass("none"), gen.Length(28))
	framework.Create(t, tenant, met, refused)
	framework.WaitBound(t, tenant, met)

	owner := tenant.Owner(t)
	events := &corev1.EventList{}
	framework.Eventually(t, "the event of the refusal", func(ctx context.Context) error {
		if err := owner.List(ctx, events, client.InNamespace(refused.Namespace)); err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.InvolvedObject.UID == refused.UID && event.Reason == string(ipamv1alpha1.ReasonClassNotFound) {
				return nil
			}
		}
		return errors.New("there is none")
	})
	for _, event := range events.Items {
		if event.InvolvedObject.UID == met.UID {
			t.Errorf("the claim that is met has the event %s: %s", event.Reason, event.Message)
		}
	}
}
