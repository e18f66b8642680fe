package sim

import (
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// oracles remember the answers that tenants got. They are safe for concurrent use.
//
//	OVERLAP     two live claims show overlapping blocks of one address space
//	LOST        a claim shows another block than its CREATE answered, or none
//	LIMIT       a workspace has more addresses of a class than the class allows
//	COOLING     a block was given to another claim before its cooldown was over
//	ORDER       a claim got a block that was due first to another claim of its workspace
//	UNANSWERED  a CREATE has no answer, though nothing is broken and nobody closes its network
//	POOLREF     an answered claim names a pool that is not there
//	RANGE       the IPPool of a range is there after the range was deleted
//	INSIDE      a range was deleted though a claim has a block in it
//	LEAK        a tenant can read names of another tenant
//	HELDUP      a binding does not go
//	ENDED       the only controller ends, as it takes the ledger for that of another controller
//
// and at rest and at the end, in rest.go and end.go:
//
//	LEDGER      the ledger contradicts itself
//	VERIFY      ledger, claims, records and pools differ
//	STARVED     a claim waits, and there is room for it
//	CAPACITY    the status of a pool does not add up
//	GONE        a record is there although its deletion was answered
//	RETAINED    a retained record is gone, and nobody deleted it
//	BRAKE       too many blocks were freed whose claims a restored kcp does not know
//	SERVICE     a new claim is not served
//	LEFT        something is left when everything was deleted
type oracles struct {
	s *Simulation

	mu        sync.Mutex
	live      map[types.UID]*told
	cooling   []cooled
	gone      map[string]time.Time  // records whose deletion was answered, by cluster/namespace/name
	off       bool                  // kcp was restored: promises from before are void
	copied    time.Time             // when kcp was copied
	deletes   map[string]int        // DELETEs of ranges that wait for their answer, by network
	deleted   map[string]time.Time  // when the last range of a network was deleted
	refused   map[string]refusals   // CREATEs of ranges that kcp refused for their names, by network
	taken     refusals              // CREATEs that kcp refused for their names
	unknown   map[string][]string   // blocks whose claim a restored kcp does not know, by pool
	served    time.Time             // when the platform last changed what a pool serves
	waited    map[waiters]time.Time // when the last claim went that was not bound
	unbound   map[string]bool       // clusters without a binding
	ended     map[string]time.Time  // when a key's last claim went, or the record that it had retained
	commits   int
	forgeries map[string]bool // claims whose status was forged, by cluster/namespace/name
	retention retention
}

// told keeps the answer that a live claim shows.
type told struct {
	key     string // cluster/namespace/name
	class   string
	space   string // its address space
	pool    string
	ranged  bool
	network string   // the network of its class and scope; empty: there is none
	inside  []string // its network, and the networks above that
	exempt  bool     // its status was forged, or kcp was restored
	unbound bool     // its workspace had no binding when it was stored
	prefix  netip.Prefix
	shown   time.Time // since when it has shown the prefix
	waits   time.Time // since when it has been waiting for room; zero: it does not
	length  int32     // the prefix length that it asks for
	wants   wanted    // the address that it waits for
	policy  policy
}

// waiters are the claims of a class in a workspace that are not bound.
type waiters struct{ workspace, class string }

// cooled is the block of a claim that is gone.
type cooled struct {
	told
	since, until time.Time
}

func newOracles(s *Simulation) *oracles {
	return &oracles{
		s: s, live: map[types.UID]*told{}, gone: map[string]time.Time{}, deletes: map[string]int{}, deleted: map[string]time.Time{}, refused: map[string]refusals{}, taken: refusals{},
		waited: map[waiters]time.Time{}, unbound: map[string]bool{}, forgeries: map[string]bool{}, ended: map[string]time.Time{}, retention: newRetention(),
	}
}

func keyOf(cluster, namespace, name string) string {
	return letterOf(cluster) + "/" + namespace + "/" + name
}

// stored judges a change as it is stored, and its text.
func (o *oracles) stored(kind, plural, cluster string, changed *unstructured.Unstructured, text []byte) {
	o.leaks(cluster, plural, changed, text)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.commits++
	switch {
	case plural == "apibindings":
		o.unbound[cluster] = kind == "DELETED"
	case plural == "ipallocations":
		o.retention.record(kind, changed)
		if of, _, retained := strings.Cut(changed.GetAnnotations()[ipamv1alpha1.AnnotationRetainedFrom], "/"); retained && kind == "DELETED" {
			o.ended[keyOf(cluster, changed.GetNamespace(), of)] = time.Now()
		}
	case plural != "ipclaims":
	case kind == "DELETED":
		o.end(changed.GetUID())
	default:
		o.show(cluster, read(changed))
	}
}

// end notes that a claim is gone.
func (o *oracles) end(uid types.UID) {
	t := o.live[uid]
	if t == nil {
		return
	}
	delete(o.live, uid)
	o.ended[t.key] = time.Now()
	o.retention.end(uid, t, o.s.saw)
	if !t.prefix.IsValid() {
		o.waited[waiters{letterOf(t.key), t.class}] = time.Now()
	}
	o.frees(t)
	if d := classes[t.class].cooldown; d > 0 && t.prefix.IsValid() && !t.ranged && !t.exempt {
		if o.mayBeMissed(t) {
			d = min(d, mayBeStored)
		}
		o.cooling = append(o.cooling, cooled{*t, time.Now(), time.Now().Add(d)})
	}
}

// mayBeStored is how long the controller has to expect that a CREATE which it answered is still stored.
const mayBeStored = 74 * time.Second

// mayBeMissed reports whether a claim may have come and gone unseen by every controller, as watches break and lists
// follow. A controller takes such a claim for a CREATE that failed: it keeps the block as long as the claim may still
// be stored, and frees it then without a cooldown.
func (o *oracles) mayBeMissed(t *told) bool {
	faults := o.s.profile.Faults
	return (faults["break"] > 0 || faults["forget"] > 0) && time.Since(t.shown) < time.Second
}

// show judges what a claim shows.
func (o *oracles) show(cluster string, claim *ipamv1alpha1.IPClaim) {
	t := o.live[claim.UID]
	if t == nil {
		key := keyOf(cluster, claim.Namespace, claim.Name)
		t = &told{
			key: key, class: claim.Spec.ClassName, network: networkOf(cluster, claim), inside: networksOf(cluster, claim),
			ranged: claim.Spec.Target == ipamv1alpha1.TargetScopeRange, exempt: o.off, unbound: o.unbound[cluster],
			length: lengthOf(claim),
		}
		o.live[claim.UID] = t
		o.retention.succeed(claim.UID, key)
		for _, record := range ipamv1alpha1.AllocationNames(claim.Namespace, claim.Name) {
			delete(o.gone, keyOf(cluster, claim.Namespace, record))
		}
	}
	t.exempt = t.exempt || o.forgeries[t.key]
	t.wait(claim)
	t.policy.read(claim)
	shown, err := netip.ParsePrefix(claim.Status.AllocatedCIDR)
	switch {
	case t.exempt, err != nil && !t.prefix.IsValid(), shown == t.prefix:
		return
	case t.prefix.IsValid():
		o.s.find("LOST", "claim %s was told %s, and shows %q (%s)", t.key, t.prefix, claim.Status.AllocatedCIDR, claim.Status.Phase)
		t.exempt = true
		return
	}
	t.prefix, t.shown, t.space, t.pool = shown, time.Now(), spaceOf(cluster, claim), poolOf(claim)
	if !t.ranged {
		o.compare(claim.UID, t)
		o.count(t)
		o.passes(claim, t)
	}
}

// compare compares a block that was shown now with all others.
func (o *oracles) compare(uid types.UID, t *told) {
	for other, with := range o.live {
		if other != uid && !with.ranged && !with.exempt && with.space == t.space && with.prefix.IsValid() && with.prefix.Overlaps(t.prefix) {
			o.s.find("OVERLAP", "%s shows %s, and %s shows %s", t.key, t.prefix, with.key, with.prefix)
		}
	}
	for _, c := range o.cooling {
		same := c.space == t.space || len(classes[c.class].unique) == 0 || len(classes[t.class].unique) == 0
		if same && c.key != t.key && c.pool == t.pool && time.Now().Before(c.until) && c.prefix.Overlaps(t.prefix) {
			o.s.find("COOLING", "%s of class %s shows %s, which cools for %s of class %s until %s",
				t.key, t.class, t.prefix, c.key, c.class, c.until.Sub(o.s.began))
		}
	}
}

// spaceOf names the address space of a claim.
func spaceOf(cluster string, claim *ipamv1alpha1.IPClaim) string {
	if claim.Spec.ClassName == "" {
		return cluster + " " + poolOf(claim)
	}
	words := []string{}
	if unique := classes[claim.Spec.ClassName].unique; len(unique) > 0 {
		words = append(words, cluster)
		for _, role := range unique {
			words = append(words, claim.Spec.Scope[role].Name)
		}
	}
	return strings.Join(words, " ")
}

// poolOf names the pool of a claim.
func poolOf(claim *ipamv1alpha1.IPClaim) string {
	ref := claim.Status.PoolRef
	switch {
	case ref == nil:
		return ""
	case ref.ProjectRef != nil:
		return ref.ProjectRef.Name + "/" + ref.Name
	}
	return ref.Name
}

// reasonOf returns the reason of the condition Allocated.
func reasonOf(claim *ipamv1alpha1.IPClaim) ipamv1alpha1.Reason {
	for _, c := range claim.Status.Conditions {
		if c.Type == ipamv1alpha1.ConditionAllocated {
			return ipamv1alpha1.Reason(c.Reason)
		}
	}
	return ""
}

// serving notes that the platform changes what a pool serves.
func (o *oracles) serving() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.served = time.Now()
}

// forging notes that the status of a claim is forged from now on.
func (o *oracles) forging(cluster, namespace, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgeries[keyOf(cluster, namespace, name)] = true
}

// copies notes that kcp is copied.
func (o *oracles) copies() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.copied = time.Now()
}

// restored notes that kcp has forgotten all that came after its copy. From now on, no promise to any claim counts.
func (o *oracles) restored() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.off = true
	for _, t := range o.live {
		t.exempt = true
	}
	for record, at := range o.gone {
		if at.After(o.copied) {
			delete(o.gone, record) // the copy has it still
		}
	}
}

// restoredLedger notes that the ledger has forgotten all that came after its copy. A cooldown is recorded nowhere
// else, so blocks whose cooldown began later may be given out, as docs/backup.md says.
func (o *oracles) restoredLedger(copied time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cooling = slices.DeleteFunc(o.cooling, func(c cooled) bool { return c.since.After(copied) })
}

// heldUp notes that a binding does not go, and the objects that are left.
func (o *oracles) heldUp(letter string) {
	left := []string{}
	for _, plural := range []string{"ipclaims", "ipallocations", "ippools"} {
		for _, object := range o.s.world.All(plural) {
			if object.Cluster == tenants[letter] {
				left = append(left, plural+" "+object.GetName()+" "+strings.Join(object.GetFinalizers(), ","))
			}
		}
	}
	o.s.find("HELDUP", "the binding of workspace %s does not go; left are %q", letter, left)
}

// named returns a claim by its letter, namespace and name, as b/default/b-c1.
func (s *Simulation) named(key string) *simkcp.Object {
	for _, o := range s.world.All("ipclaims") {
		if keyOf(o.Cluster, o.GetNamespace(), o.GetName()) == key {
			return &o
		}
	}
	return nil
}
