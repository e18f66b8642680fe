package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
)

// component is the reporter of the controller's events.
const component = "ipam-controller"

// patience limits how long a check waits for the servers, and how long the writes after it
// wait. The worker is not free during that time.
const patience = 10 * time.Second

// Looks in a row that must have found the same: to report it, and to act on it.
const (
	looksToReport = 2
	looksToDelete = 3
)

// Reconciler checks the consumers of claims. It is safe for concurrent use.
type Reconciler struct {
	Options
	limiter limiter
	queue   inbox.Queue
	gates   gates
	looks   looks
	brake   brake
}

// limiter has looks wait for their turn.
type limiter interface {
	Wait(ctx context.Context) error
}

// pass is one reconcile of one claim.
type pass struct {
	*Reconciler
	request mcreconcile.Request
	from    ledger.ClusterName
	cluster cluster.Cluster
	claim   *ipamv1alpha1.IPClaim
}

// Reconcile checks one claim. If its endpoint has its share of the workers already, the
// request is kept until a check of that endpoint ends. A request with a kind before the name
// stands for the claims of that consumer, which are requeued.
func (r *Reconciler) Reconcile(ctx context.Context, req mcreconcile.Request) (reconcile.Result, error) {
	cl, err := r.Clusters.GetCluster(ctx, req.ClusterName)
	if err != nil {
		r.looks.forget(req)
		r.admit() // next may have returned this request, and another one can begin in its place
		return reconcile.Result{}, err
	}
	if strings.Contains(req.Name, "/") {
		return reconcile.Result{}, r.wakeAll(ctx, req, cl)
	}
	endpoint := endpointOf(cl)
	if !r.gates.enter(endpoint, req) {
		return reconcile.Result{}, nil
	}
	defer func() {
		r.gates.leave(endpoint)
		r.admit()
	}()
	return r.reconcile(ctx, req, cl)
}

// admit requeues the kept claims that may begin.
func (r *Reconciler) admit() {
	for _, req := range r.gates.next() {
		r.queue.Add(req)
	}
}

func (r *Reconciler) reconcile(ctx context.Context, req mcreconcile.Request, cl cluster.Cluster) (reconcile.Result, error) {
	claim := &ipamv1alpha1.IPClaim{}
	if err := cl.GetClient().Get(ctx, req.NamespacedName, claim); err != nil {
		r.looks.forget(req)
		if _, odd := errors.AsType[*decode.UnreadableError](err); odd {
			return reconcile.Result{}, nil // as the claim itself tells
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.Spec.OwnerRef == nil || !claim.DeletionTimestamp.IsZero() {
		r.looks.forget(req)
		return reconcile.Result{}, nil
	}
	if young := r.MinAge - r.Clock.Since(claim.CreationTimestamp.Time); young > 0 {
		return reconcile.Result{RequeueAfter: young}, nil
	}
	p := &pass{Reconciler: r, request: req, from: r.Directory.Ledger(req.ClusterName), cluster: cl, claim: claim}
	if err := p.look(ctx); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait.Jitter(r.Interval, 0.2)}, nil
}

// look looks for the claim's consumer, and does what follows from that.
func (p *pass) look(ctx context.Context) error {
	found, err := p.find(ctx)
	if err != nil {
		checks.WithLabelValues("Failed").Inc()
		return fmt.Errorf("look for the consumer of %s: %w", p.request.NamespacedName, err)
	}
	checks.WithLabelValues(found.result()).Inc()
	if found.sight == live.Unknown {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if found.sight == live.Hidden {
		p.looks.forget(p.request)
		return p.report(ctx, found) // what was said before cannot be upheld
	}
	times := p.looks.note(p.request, look{claim: ledger.ClaimID(p.claim.UID), rule: found.rule, at: p.Clock.Now()}, p.Interval)
	if found.rule != "" && times < looksToReport {
		return nil
	}
	p.brake.note(p.from, p.claim.UID, found.rule != "", p.Clock.Now())
	abandoned := found.rule != "" && times >= looksToDelete && found.proven
	if err := p.report(ctx, found); err != nil || !abandoned || !p.DeleteAbandoned {
		return err
	}
	return p.abandon(ctx, found)
}

// find asks the servers for the consumer. One that is in another namespace is not
// looked for, so that nobody learns from a claim what he may not read himself.
func (p *pass) find(ctx context.Context) (finding, error) {
	ref := p.claim.Spec.OwnerRef
	if ref.Namespace != "" && ref.Namespace != p.claim.Namespace {
		return finding{sight: live.Hidden}, nil
	}
	if err := p.limiter.Wait(ctx); err != nil {
		return finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sight, err := p.World.Object(ctx, p.from, live.Ref{Kind: kindOf(ref), Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return finding{}, err
	}
	return p.judge(p.claim, sight), nil
}

// report sets or takes away the condition, with an event when that is news.
func (p *pass) report(ctx context.Context, found finding) error {
	before := patch.Snapshot(p.claim)
	status := &p.claim.Status
	said := meta.FindStatusCondition(status.Conditions, ipamv1alpha1.ConditionConsumerGone)
	news := found.rule != "" && (said == nil || said.Reason != string(found.rule))
	outcome.Report(&status.Conditions, p.claim.Generation, ipamv1alpha1.ConditionConsumerGone, found.refusal(p.consumer()))
	if err := before.Patch(ctx, p.cluster.GetClient(), p.claim); client.IgnoreNotFound(err) != nil {
		return err
	}
	if news {
		log.FromContext(ctx).Info("consumer gone", "rule", found.rule, "consumer", p.consumer())
		p.warn(found.rule, p.consumer()+" "+found.what)
	}
	return nil
}

// abandon deletes the claim, unless the brake holds: by its UID, at the server that
// has just shown it. Its block follows by the rules of release.
func (p *pass) abandon(ctx context.Context, found finding) error {
	if !p.brake.free(p.from, p.limit(), p.Clock.Now()) {
		braked.hold(p.from)
		log.FromContext(ctx).Info("claim kept, as too many of its workspace seem abandoned", "rule", found.rule)
		return nil
	}
	braked.let(p.from)
	answer, err := p.World.Holder(ctx, promise.HolderOf(p.from, p.claim))
	if err != nil || answer.Verdict != live.Alive {
		return err
	}
	err = answer.Client.Delete(ctx, p.claim, client.Preconditions{UID: new(p.claim.UID)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the abandoned claim: %w", err)
	}
	deleted.Inc()
	log.FromContext(ctx).Info("abandoned claim deleted", "rule", found.rule, "consumer", p.consumer(), "prefix", p.claim.Status.AllocatedCIDR)
	p.warn(ipamv1alpha1.ReasonClaimAbandoned, "deleted, as "+p.consumer()+" "+found.what)
	return nil
}

// consumer names the consumer in a message.
func (p *pass) consumer() string {
	ref := p.claim.Spec.OwnerRef
	return fmt.Sprintf("the consumer %s %q", kindOf(ref), ref.Name)
}

func (p *pass) warn(reason ipamv1alpha1.Reason, message string) {
	p.cluster.GetEventRecorder(component).
		Eventf(p.claim, nil, corev1.EventTypeWarning, string(reason), "CheckConsumer", "%s", message)
}
