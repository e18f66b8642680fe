package source

import (
	"context"
	"errors"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/controllers/internal/decode"
)

var unreadable = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "ipam_unreadable_objects",
	Help: "Objects of a kind that are stored with a value that the API does not have. " +
		"They are shown in the log, and left as they are.",
}, []string{"kind"})

func init() { metrics.Registry.MustRegister(unreadable, overdue) }

// faults are the objects of a kind that cannot be read. Safe for concurrent use.
type faults struct {
	kind string

	mu    sync.Mutex
	known map[types.UID]string // why each object cannot be read
}

// reset forgets all faults, because a list follows.
func (f *faults) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count(-len(f.known))
	f.known = nil
}

// note counts an object of a list or an event if it cannot be read, and logs each fault once. An object that can be
// read, or was deleted, is not counted any more.
func (f *faults) note(ctx context.Context, event watch.EventType, obj client.Object) {
	err := decode.Unreadable(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	why, known := f.known[obj.GetUID()]
	if err == nil || event == watch.Deleted {
		if known {
			delete(f.known, obj.GetUID())
			f.count(-1)
		}
		return
	}
	if known && why == err.Error() {
		return
	}
	if f.known == nil {
		f.known = map[types.UID]string{}
	}
	if !known {
		f.count(1)
	}
	f.known[obj.GetUID()] = err.Error()
	klog.FromContext(ctx).Error(err, "an object cannot be read", "kind", f.kind, "cluster", logicalcluster.From(obj),
		"namespace", obj.GetNamespace(), "name", obj.GetName(), "uid", obj.GetUID())
}

// count adds to the metric. The caller holds mu.
func (f *faults) count(more int) { unreadable.WithLabelValues(f.kind).Add(float64(more)) }

// Tell reports whether err says that an object cannot be read. If so, Tell records an event on the object. Do not retry
// then: a change of the object requeues it.
func Tell(cl cluster.Cluster, err error) bool {
	odd, ok := errors.AsType[*decode.UnreadableError](err)
	if ok {
		cl.GetEventRecorder("ipam-controller").Eventf(odd.Object, nil, corev1.EventTypeWarning, "Unreadable", "Read", "%s",
			odd.Error())
	}
	return ok
}
