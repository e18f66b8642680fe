package outcome_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
)

// The library that tools wait with reads our conditions as we mean them.
func TestKstatus(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(*ipamv1alpha1.IPClaim)
		want   kstatus.Status
	}{
		{"bound", func(c *ipamv1alpha1.IPClaim) { outcome.Succeed(&c.Status.Conditions, 1, "m") }, kstatus.CurrentStatus},
		{"waits", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonPoolExhausted) }, kstatus.InProgressStatus},
		{"stalled", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonFamilyMismatch) }, kstatus.FailedStatus},
		{"retried", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonError) }, kstatus.InProgressStatus},
		{"bound after a wait", func(c *ipamv1alpha1.IPClaim) {
			refuse(c, ipamv1alpha1.ReasonPoolExhausted)
			outcome.Succeed(&c.Status.Conditions, 1, "m")
		}, kstatus.CurrentStatus},
		{"changed since", func(c *ipamv1alpha1.IPClaim) {
			outcome.Succeed(&c.Status.Conditions, 1, "m")
			c.Generation = 2
		}, kstatus.InProgressStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			claim := gen.Claim("c")
			claim.Status.ObservedGeneration = 1
			tt.answer(claim)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
			if err != nil {
				t.Fatal(err)
			}
			got, err := kstatus.Compute(&unstructured.Unstructured{Object: content})
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != tt.want {
				t.Errorf("kstatus = %s (%s), want %s", got.Status, got.Message, tt.want)
			}
		})
	}
}

func refuse(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) {
	outcome.Refuse(&claim.Status.Conditions, 1, &outcome.Refusal{Reason: reason, Message: "m"})
}
