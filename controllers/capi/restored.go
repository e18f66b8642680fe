package capi

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
)

const (
	// AnnotationRevision of an IPClaim in a workspace is the revision that the management cluster had reached when the
	// IPClaim was made. If a management cluster has a lower revision now, it was restored from an older copy.
	AnnotationRevision = ipamv1alpha1.GroupName + "/management-revision"
	// AnnotationAbandoned says what happens to an IPClaim in a workspace if the management cluster does not know its
	// IPAddressClaim. The controller writes [Held], a person writes [Release].
	AnnotationAbandoned = ipamv1alpha1.GroupName + "/abandoned"
	// Held keeps an IPClaim until somebody writes [Release].
	Held = "held"
	// Release lets an IPClaim be given back if its IPAddressClaim is gone.
	Release = "release"
)

const (
	// few is how many IPClaims may be given back in a window if this process never saw their IPAddressClaims.
	few = 10
	// share is the same limit as a part of all IPClaims of the management cluster. The larger limit counts.
	share = 0.1
	// window is how long an IPClaim that was given back counts.
	window = 10 * time.Minute
)

// fate says how the watch last showed an IPAddressClaim.
type fate int

const (
	present fate = iota + 1
	deleted
	// missed: a list no longer had it. Either its deletion was missed, or the server has forgotten it.
	missed
)

// memory is what a process knows of the management cluster. It tells an IPAddressClaim that was deleted from one that
// the cluster has forgotten, because the cluster was restored from an older copy, or is a clone. The zero value is
// ready.
type memory struct {
	mu        sync.Mutex
	started   time.Time // when the first claim was reconciled; a standby may wait for long
	fates     map[client.ObjectKey]fate
	abandoned map[client.ObjectKey]time.Time
	compared  bool // the revision was compared with all IPClaims of the workspace
	backwards bool
}

// begin notes when the first IPAddressClaim was reconciled.
func (m *memory) begin(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.IsZero() {
		m.started = now
	}
}

// watched passes all events of IPAddressClaims, and notes what they show. It gets the events in their order, and each
// before the reconcile that the event causes.
func (m *memory) watched() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return m.note(e.Object, present) },
		DeleteFunc: func(e event.DeleteEvent) bool {
			if e.DeleteStateUnknown {
				return m.note(e.Object, missed)
			}
			return m.note(e.Object, deleted)
		},
	}
}

func (m *memory) note(object client.Object, is fate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fates == nil {
		m.fates = map[client.ObjectKey]fate{}
	}
	m.fates[client.ObjectKeyFromObject(object)] = is
	return true
}

// forget forgets an IPAddressClaim whose address was given back, unless it was made again.
func (m *memory) forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fates[key] != present {
		delete(m.fates, key)
	}
}

// shows reports whether the watch still shows the IPAddressClaim. Then the event of its end has yet to come.
func (m *memory) shows(key client.ObjectKey) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fates[key] == present
}

// doubt returns why an IPClaim is not given back although its IPAddressClaim is gone; empty if it may be given back.
// all is how many IPClaims the management cluster has.
//
// A watch shows a deletion. A server that was restored shows none: its first list lacks newer objects. Its revision may
// even be higher than before, because etcd can raise it so that clients notice the restore.
func (m *memory) doubt(
	key client.ObjectKey, claim *ipamv1alpha1.IPClaim, reached uint64, all int, now time.Time,
) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.backwards = m.backwards || revision(claim) > reached
	switch {
	case m.backwards:
		return "the management cluster is older than IPClaims that it made, as after a restore"
	case m.fates[key] == deleted:
		return ""
	case m.fates[key] == missed:
		return "the management cluster does not have the IPAddressClaim any more, and showed no deletion, as after a restore"
	case !claim.CreationTimestamp.Time.Before(m.started.Truncate(time.Second)): // a creation time has whole seconds
		return "another controller made it for this management cluster, as beside a clone"
	}
	maps.DeleteFunc(m.abandoned, func(_ client.ObjectKey, at time.Time) bool { return now.Sub(at) > window })
	if m.abandoned == nil {
		m.abandoned = map[client.ObjectKey]time.Time{}
	}
	m.abandoned[key] = now
	if len(m.abandoned) > max(few, int(share*float64(all))) {
		return "many IPAddressClaims are gone at once"
	}
	return ""
}

// revision returns the revision at which an IPClaim was made; 0 if the IPClaim does not say.
func revision(claim *ipamv1alpha1.IPClaim) uint64 {
	at, err := strconv.ParseUint(claim.Annotations[AnnotationRevision], 10, 64)
	if err != nil {
		return 0
	}
	return at
}

// survey counts the IPClaims of the management cluster. The first survey compares the reached revision with all of
// them: only the newest may show that the cluster was restored, and an older one may be reconciled first.
func (m *memory) survey(ctx context.Context, claims Claims, reached uint64) (int, error) {
	m.mu.Lock()
	from, compared := client.Reader(claims), m.compared
	m.mu.Unlock()
	if !compared {
		from = claims.Live
	}
	list := &ipamv1alpha1.IPClaimList{}
	ours := client.MatchingLabels{LabelOrigin: string(claims.Names.Origin)}
	if err := from.List(ctx, list, client.InNamespace(claims.Names.Namespace), ours); err != nil {
		return 0, fmt.Errorf("list IPClaims: %w", err)
	}
	if compared {
		return len(list.Items), nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.compared = true
	for i := range list.Items {
		m.backwards = m.backwards || revision(&list.Items[i]) > reached
	}
	return len(list.Items), nil
}

// reached returns the revision that the management cluster has reached.
func (m Management) reached(ctx context.Context) (uint64, error) {
	list := &capiv1.IPAddressClaimList{}
	if err := m.Live.List(ctx, list, client.Limit(1), client.InNamespace(m.Scope.Namespace)); err != nil {
		return 0, fmt.Errorf("read the revision of the management cluster: %w", err)
	}
	at, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the management cluster has the revision %q, which is not a number", list.ResourceVersion)
	}
	return at, nil
}

// keeps reports whether an IPClaim has to stay although its IPAddressClaim is gone, because the management cluster may
// have forgotten the IPAddressClaim. Such an IPClaim gets the annotation value Held, so that it stays even after the
// controller restarts.
func (r *Reconciler) keeps(ctx context.Context, key client.ObjectKey) (bool, error) {
	claim := &ipamv1alpha1.IPClaim{}
	gone, err := r.Claims.gone(ctx, r.Claims.Names.claim(key), claim)
	abandoned := claim.Annotations[AnnotationAbandoned]
	switch {
	case err != nil || gone || !r.Claims.Names.beside() || !r.Claims.Names.owns(key, claim):
		return false, err
	case r.memory.shows(key) || abandoned == Held:
		return true, nil
	case abandoned == Release:
		return false, nil
	}
	why, err := r.doubt(ctx, key, claim)
	if err != nil || why == "" {
		return false, err
	}
	before := patch.Snapshot(claim)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, AnnotationAbandoned, Held)
	if err := before.Patch(ctx, r.Claims, claim); err != nil {
		return false, fmt.Errorf("hold IPClaim %s: %w", claim.Name, err)
	}
	log.FromContext(ctx).Info("an address is not given back, though its IPAddressClaim is gone; see docs/cluster-api.md",
		"reason", why, "claim", claim.Name, "prefix", claim.Status.AllocatedCIDR)
	return true, nil
}

// doubt returns why an IPClaim is not given back; empty if it may be. It asks both servers.
func (r *Reconciler) doubt(
	ctx context.Context, key client.ObjectKey, claim *ipamv1alpha1.IPClaim,
) (why string, err error) {
	reached, err := r.Management.reached(ctx)
	if err != nil {
		return "", err
	}
	all, err := r.memory.survey(ctx, r.Claims, reached)
	if err != nil {
		return "", err
	}
	return r.memory.doubt(key, claim, reached, all, time.Now()), nil
}
