package claim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/kcp-ipam/ipam/controllers/outcome"
)

// component is the reporter of the controller's events.
const component = "ipam-controller"

// warn emits the event of a refusal. Success has none: it is in the status.
func (p *pass) warn(refusal *outcome.Refusal) {
	p.cluster.GetEventRecorder(component).
		Eventf(p.claim, nil, corev1.EventTypeWarning, string(refusal.Reason), "Allocate", "%s", refusal.Message)
}
