package source

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

// Tell reports whether err is that of an object which cannot be read, and then records an event on that. There is nothing to try
// again: a change of the object brings it back.
func Tell(cl cluster.Cluster, err error) bool {
	odd, ok := errors.AsType[*decode.UnreadableError](err)
	if ok {
		cl.GetEventRecorder("ipam-controller").Eventf(odd.Object, nil, corev1.EventTypeWarning, "Unreadable", "Read", "%s", odd.Error())
	}
	return ok
}
