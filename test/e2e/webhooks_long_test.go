//go:build long

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
)

// The registration is written once, and again when it is deleted or changed.
func TestLong_WebhooksAreRegisteredAgain(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	platform.WaitWebhooks(t)
	admin := framework.Admin(t, platform.Path)
	mutating, validating := &admissionregistrationv1.MutatingWebhookConfiguration{}, &admissionregistrationv1.ValidatingWebhookConfiguration{}
	key := client.ObjectKey{Name: ipamv1alpha1.GroupName}
	for _, configuration := range []client.Object{mutating, validating} {
		must.Do(t, admin.Get(t.Context(), key, configuration))
	}
	want, revision := mutating.DeepCopy().Webhooks, mutating.ResourceVersion

	framework.Delete(t, admin, validating)
	framework.Eventually(t, "the deleted configuration to be written again", func(ctx context.Context) error {
		return admin.Get(ctx, key, validating)
	})
	if err := admin.Get(t.Context(), key, mutating); err != nil || mutating.ResourceVersion != revision {
		t.Errorf("what nobody has changed was written again: revision %s, want %s; %v", mutating.ResourceVersion, revision, err)
	}

	mutating.Webhooks[0].ClientConfig.URL = new("https://example.org/other")
	other := *mutating.Webhooks[0].DeepCopy()
	other.Name = "other.example.org"
	mutating.Webhooks = append(mutating.Webhooks, other)
	must.Do(t, admin.Update(t.Context(), mutating))
	framework.Eventually(t, "the changed configuration to be put right", func(ctx context.Context) error {
		if err := admin.Get(ctx, key, mutating); err != nil {
			return err
		}
		if diff := cmp.Diff(want, mutating.Webhooks); diff != "" {
			return fmt.Errorf("it differs (-want +got):\n%s", diff)
		}
		return nil
	})
}
