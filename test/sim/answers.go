package sim

import (
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// question is a CREATE that waits for its answer.
type question struct {
	cluster string
	claim   *ipamv1alpha1.IPClaim
	busy    bool   // an answer cannot be expected: see the method busy
	older   string // the key of a claim that has waited longer for the same; empty: none
}

// settling is how long after a change a CREATE that meets it may go without an answer.
const settling = 3 * time.Second

// noticed is how long the controller may take to see that a claim has gone.
const noticed = 500 * time.Millisecond

// promised is how long a CREATE that was answered may still be stored: longer than kcp's time for a request.
const promised = 80 * time.Second

// turn is how long a CREATE may have to wait for an earlier CREATE of its name that was answered, and then refused by
// kcp.
const turn = 6 * time.Second

// refusals are times of refused CREATEs, by cluster/namespace/name.
type refusals map[string]time.Time

// asked notes a CREATE, and a claim of its workspace and class that already waits for a block of at least that size.
// A waiting claim that needs a smaller block would be served by the same room: "a small one may pass a large one that
// cannot be served yet".
func (o *oracles) asked(cluster string, claim *ipamv1alpha1.IPClaim) question {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := question{cluster: cluster, claim: claim, busy: o.busy(cluster, claim)}
	for _, t := range o.live {
		mine := strings.HasPrefix(t.key, letterOf(cluster)+"/")
		mayHave := t.class == claim.Spec.ClassName && t.length >= lengthOf(claim)
		if mine && mayHave && !t.waits.IsZero() && time.Since(t.waits) > queued {
			q.older = t.key
		}
	}
	return q
}

// busy reports whether a CREATE may go without an answer. "When nobody can answer in time, CREATE succeeds with an
// empty or Pending status, and the reconcile binds the claim." That is allowed in these cases:
//   - A range of its network, or of one above it, is being deleted: "what is already released but not settled does not
//     count", and no claim is bound inside until that is known.
//   - A CREATE of the same range by another name was answered, and kcp refused it then, because that name has a
//     claim, which does not hold the range. kcp tells nobody of the refusal. The answer "is a promise", and as far
//     as the controller knows, the claim may still be stored. Until that is over, "nobody can tell now" whether the
//     range is free.
//   - A CREATE of its name was answered a moment before, and kcp refused it then, because the name has a claim.
//     CREATEs of one name take turns.
//   - The platform changed a moment before which classes its pool serves.
//   - A claim of its name exists, or the last one went a moment before, or its retained record did. The block may be
//     retained for this claim: "CREATE may answer such a claim Pending; it is Bound a moment later."
//   - An older claim of its workspace is not bound, and waits for room in the same pools: a newcomer comes after it. It
//     may also have gone a moment before.
func (o *oracles) busy(cluster string, claim *ipamv1alpha1.IPClaim) bool {
	network := networkOf(cluster, claim)
	isRange := claim.Spec.Target == ipamv1alpha1.TargetScopeRange
	return slices.ContainsFunc(networksOf(cluster, claim), o.closes) ||
		network != "" && isRange && o.promises(network, keyOf(cluster, claim.Namespace, claim.Name)) ||
		o.again(keyOf(cluster, claim.Namespace, claim.Name)) ||
		(claim.Spec.ClassName == "mflat" || claim.Spec.ClassName == "mvrf") && time.Since(o.served) < settling ||
		time.Since(o.ended[keyOf(cluster, claim.Namespace, claim.Name)]) < settling || o.older(cluster, claim)
}

// closes reports whether a range of a network is being deleted, or was a moment before.
func (o *oracles) closes(network string) bool {
	return o.deletes[network] > 0 || time.Since(o.deleted[network]) < settling
}

// promises reports whether the range of a network was promised lately to a CREATE by another key, which kcp refused
// then. A key whose claim holds the range does not count.
func (o *oracles) promises(network, key string) bool {
	for other, at := range o.refused[network] {
		if other != key && time.Since(at) < promised && !o.holds(other, network) {
			return true
		}
	}
	return false
}

// again reports whether kcp refused a CREATE by this key a moment before, because there was a claim of its name.
func (o *oracles) again(key string) bool { return time.Since(o.taken[key]) < turn }

// holds reports whether there is a claim of that key which has the range of a network.
func (o *oracles) holds(key, network string) bool {
	for _, t := range o.live {
		if t.key == key && t.ranged && t.network == network && t.prefix.IsValid() {
			return true
		}
	}
	return false
}

// older reports whether there is another claim of the same name, or an unbound claim of the same workspace that may
// wait for room in the same pools, or whether such an unbound claim went a moment before.
func (o *oracles) older(cluster string, claim *ipamv1alpha1.IPClaim) bool {
	key, workspace := keyOf(cluster, claim.Namespace, claim.Name), letterOf(cluster)+"/"
	for uid, t := range o.live {
		waits := strings.HasPrefix(t.key, workspace) && alike(t.class, claim.Spec.ClassName) && !t.prefix.IsValid()
		if uid != claim.UID && (t.key == key || waits) {
			return true
		}
	}
	for of, at := range o.waited {
		if of.workspace == letterOf(cluster) && alike(of.class, claim.Spec.ClassName) && time.Since(at) < noticed {
			return true
		}
	}
	return false
}

// alike reports whether claims of two classes may need room in the same pools: classes of one level share the pools
// of a network.
func alike(class, other string) bool {
	level := classes[class].level
	return class == other || level != "" && level == classes[other].level
}

// refuses notes that kcp refused to store the range of a network, because its name was in use.
func (o *oracles) refuses(network, key string) {
	if o.refused[network] == nil {
		o.refused[network] = refusals{}
	}
	o.refused[network][key] = time.Now()
}

// answered judges the answer of a CREATE.
func (o *oracles) answered(q question, answer *unstructured.Unstructured, err error) {
	if !o.s.profile.Fair {
		return
	}
	if err == nil {
		q.claim.UID = answer.GetUID()
	}
	o.mu.Lock()
	busy := q.busy || o.busy(q.cluster, q.claim)
	if apierrors.IsAlreadyExists(err) {
		key := keyOf(q.cluster, q.claim.Namespace, q.claim.Name)
		o.taken[key] = time.Now()
		if q.claim.Spec.Target == ipamv1alpha1.TargetScopeRange {
			o.refuses(networkOf(q.cluster, q.claim), key)
		}
	}
	o.mu.Unlock()
	if err != nil {
		if !busy && unanswered(err) {
			o.s.find("UNANSWERED", "%s %s of workspace %s is refused: %v", q.claim.Spec.ClassName, q.claim.Name, letterOf(q.cluster), err)
		}
		return
	}
	claim := read(answer)
	switch {
	case reasonOf(claim) == "" && !busy && claim.Status.AllocatedCIDR == "":
		o.s.find("UNANSWERED", "%s %s of workspace %s is stored without an answer", q.claim.Spec.ClassName, q.claim.Name, letterOf(q.cluster))
	case claim.Status.Phase != ipamv1alpha1.ClaimBound:
	case q.older != "" && classes[q.claim.Spec.ClassName].window != "" && q.claim.Spec.Address == "" && claim.Spec.ReclaimPolicy == "":
		o.s.find("ORDER", "%s got %s, which %s waits for", q.claim.Name, claim.Status.AllocatedCIDR, q.older)
	default:
		o.reach(q, claim)
	}
}

// unanswered reports whether an error means that the CREATE could not be answered.
func unanswered(err error) bool {
	return apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
}

// reach judges that the pool exists that an answered claim names.
func (o *oracles) reach(q question, claim *ipamv1alpha1.IPClaim) {
	if claim.Status.PoolRef == nil || !o.lives(q.cluster, claim) {
		return
	}
	pool := o.pool(q.cluster, claim)
	if pool == nil && o.lives(q.cluster, claim) {
		o.s.find("POOLREF", "%s of workspace %s names pool %s, which is not there", claim.Name, letterOf(q.cluster), poolOf(claim))
	}
}

// lives reports whether a claim of a workspace is there, and is not being deleted.
func (o *oracles) lives(cluster string, claim *ipamv1alpha1.IPClaim) bool {
	stored := o.s.world.Find("ipclaims", cluster, claim.Namespace, claim.Name)
	return stored != nil && stored.GetUID() == claim.UID && stored.GetDeletionTimestamp() == nil
}

// pool returns the pool that a claim names; nil: it is not there.
func (o *oracles) pool(cluster string, claim *ipamv1alpha1.IPClaim) *simkcp.Object {
	if claim.Status.PoolRef == nil {
		return nil
	}
	if claim.Status.PoolRef.ProjectRef != nil {
		cluster = simkcp.Platform
	}
	return o.s.world.Find("ippools", cluster, "", claim.Status.PoolRef.Name)
}

// deleting notes that a claim is being deleted. The caller passes the answer to the returned function.
func (o *oracles) deleting(user simkcp.User, namespace, name string) (answered func(error)) {
	stored, err := user.Get("ipclaims", namespace, name)
	if err != nil {
		return func(error) {}
	}
	claim := read(stored)
	network := networkOf(user.Cluster, claim)
	if claim.Spec.Target != ipamv1alpha1.TargetScopeRange || claim.DeletionTimestamp != nil || claim.Status.AllocatedCIDR == "" {
		return func(error) {} // it closes nothing
	}
	pool, asked := o.pool(user.Cluster, claim), time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deletes[network]++
	return func(err error) {
		o.mu.Lock()
		o.deletes[network]--
		if err == nil {
			o.deleted[network] = time.Now()
		}
		o.mu.Unlock()
		if err == nil && pool != nil && len(claim.Finalizers) == 0 && o.s.profile.Fair {
			o.judgeRange(user, claim, pool)
			o.judgeInside(claim, network, asked)
		}
	}
}

// judgeRange judges that the IPPool of a deleted range is gone.
func (o *oracles) judgeRange(user simkcp.User, claim *ipamv1alpha1.IPClaim, before *simkcp.Object) {
	after := o.pool(user.Cluster, claim)
	if after != nil && after.GetUID() == before.GetUID() && user.UID("ipclaims", claim.Namespace, claim.Name) != claim.UID {
		o.s.find("RANGE", "range %s of workspace %s is deleted, and its pool %s is there", claim.Name, letterOf(user.Cluster), after.GetName())
	}
}

// judgeInside judges that a deleted range had no claim inside: DELETE is refused "while anything lives in it: a block
// of a claim that still exists". A claim that first showed its block after the DELETE was sent does not count: its
// block may lie in a new pool.
func (o *oracles) judgeInside(claim *ipamv1alpha1.IPClaim, network string, asked time.Time) {
	inside := map[string]types.UID{}
	o.mu.Lock()
	for uid, t := range o.live {
		if uid != claim.UID && t.prefix.IsValid() && t.shown.Before(asked) && !t.exempt && slices.Contains(t.inside, network) {
			inside[t.key] = uid
		}
	}
	o.mu.Unlock()
	for key, uid := range inside {
		if there := o.s.named(key); there != nil && there.GetUID() == uid && there.GetDeletionTimestamp() == nil {
			o.s.find("INSIDE", "range %s of network %s was deleted, and %s has its block in it", claim.Name, network, key)
		}
	}
}

// deletingRecord notes that the record of a claim is being deleted. The caller passes the answer to the returned
// function. If the claim was gone before the DELETE, and the DELETE succeeds, the record has to stay gone.
func (o *oracles) deletingRecord(cluster, namespace, name, record string) (answered func(error)) {
	key := keyOf(cluster, namespace, name)
	before := o.livesKey(key)
	done := o.discards(key)
	return func(err error) {
		done()
		if before || o.livesKey(key) || err != nil && !apierrors.IsNotFound(err) {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.gone[keyOf(cluster, namespace, record)] = time.Now()
	}
}

func (o *oracles) livesKey(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.live {
		if t.key == key {
			return true
		}
	}
	return false
}

// shown judges that a text shown to a tenant names no object, path or logical cluster of another tenant.
func (o *oracles) shown(cluster, what, text string) {
	for letter, of := range tenants {
		if of == cluster || tenants[letterOf(cluster)] == "" {
			continue
		}
		for _, secret := range []string{of, "root:" + letter + `"`, `"` + letter + "-", " " + letter + "-", "/" + letter + "-"} {
			if strings.Contains(text, secret) {
				o.s.find("LEAK", "workspace %s is shown %q: %s: %s", letterOf(cluster), secret, what, text)
				break
			}
		}
	}
}

// leaks judges an object that a tenant can read. Once a status was forged, leaks judges nothing: a forged object
// shows what its tenant knew before.
func (o *oracles) leaks(cluster, plural string, changed *unstructured.Unstructured, text []byte) {
	o.mu.Lock()
	forged := len(o.forgeries) > 0
	o.mu.Unlock()
	if forged || plural == "apibindings" || tenants[letterOf(cluster)] == "" {
		return
	}
	o.shown(cluster, plural+" "+changed.GetName(), string(text))
}
