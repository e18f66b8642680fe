package claim

import (
	corev1 "k8s.io/api/core/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// component is the reporter of the controller's events.
const component = "ipam-controller"

// warn emits the event of a refusal. Success has none, unless something had failed: it
// is in the status.
func (p *pass) warn(refusal *outcome.Refusal) {
	p.tell(corev1.EventTypeWarning, refusal.Reason, refusal.Message)
}

// tell emits an event on the claim.
func (p *pass) tell(kind string, reason ipamv1alpha1.Reason, message string) {
	p.cluster.GetEventRecorder(component).Eventf(p.claim, nil, kind, string(reason), "Allocate", "%s", message)
}
