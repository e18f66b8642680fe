package sim

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// policy is what becomes of the block of a claim.
type policy struct {
	is    ipamv1alpha1.ReclaimPolicy
	since time.Time
}

// read notes the policy that a claim has: its own, else that of its class.
func (p *policy) read(claim *ipamv1alpha1.IPClaim) {
	if is := cmp.Or(claim.Spec.ReclaimPolicy, classes[claim.Spec.ClassName].reclaim); is != p.is {
		*p = policy{is, time.Now()}
	}
}

// retention knows the blocks that claims have left with the policy Retain. "The IPAllocation stays without claimRef, the block stays
// taken."
type retention struct {
	published map[types.UID]bool         // claims that have a record
	left      map[string]netip.Prefix    // retained blocks, by the cluster/namespace/name of the claim
	before    map[types.UID]netip.Prefix // the block that the previous claim of its name had left
	emptied   map[string]int             // workspaces and namespaces that go, which "releases everything in it"
	discarded map[string]int             // DELETEs of records that wait for their answer, by the claim's cluster/namespace/name
}

func newRetention() retention {
	return retention{
		published: map[types.UID]bool{}, left: map[string]netip.Prefix{}, before: map[types.UID]netip.Prefix{}, emptied: map[string]int{},
		discarded: map[string]int{},
	}
}

// record notes whether a claim has a record: only then can its block be retained.
func (r *retention) record(kind string, record *unstructured.Unstructured) {
	uid, _, _ := unstructured.NestedString(record.Object, "spec", "claimRef", "uid")
	r.published[types.UID(uid)] = kind != "DELETED"
}

// end notes that a claim has gone. A claim with a record leaves its block, if a controller has seen that its policy is
// Retain. If no controller runs, none sees a change of the policy. A claim that was stored without a binding may count
// as one that went with its binding, and leaves nothing. A claim without a record leaves the block of the previous claim
// of its name as it was, unless it has a block itself and its policy is to free it. This also holds for a claim that
// goes while the controller exchanges the previous claim's record for its own.
func (r *retention) end(uid types.UID, t *told, saw func(time.Time) bool) {
	before, follows := r.before[uid]
	retains := t.policy.is == ipamv1alpha1.ReclaimRetain && saw(t.policy.since)
	switch published := r.published[uid]; {
	case t.ranged, t.exempt, t.unbound, classes[t.class].leased, r.goes(t.key), r.discarded[t.key] > 0:
	case published && retains && t.prefix.IsValid():
		r.left[t.key] = t.prefix
	case !published && follows && (retains || !t.prefix.IsValid()):
		r.left[t.key] = before
	}
}

// succeed notes that a claim has come which may get back the block that the previous claim of its name left.
func (r *retention) succeed(uid types.UID, key string) {
	if before, ok := r.left[key]; ok {
		r.before[uid] = before
		delete(r.left, key)
	}
}

// goes reports whether the workspace or the namespace of a claim goes.
func (r *retention) goes(key string) bool {
	for prefix, n := range r.emptied {
		if n > 0 && strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// discards notes that the record of the claims of a name is being deleted, until the returned function is called. The
// DELETE may come a moment before the claim goes, and still delete the record that the claim leaves: "A retained one
// may be deleted by a tenant's admin, and that frees the block."
func (o *oracles) discards(key string) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retention.discarded[key]++
	delete(o.retention.left, key)
	for uid, t := range o.live {
		if t.key == key {
			delete(o.retention.before, uid)
		}
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.retention.discarded[key]--
	}
}

// empties notes that a workspace or a namespace goes with everything in it, until the returned function is called.
func (o *oracles) empties(prefix string) (done func()) {
	change := func(n int) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.retention.emptied[prefix] += n
		for key := range o.retention.left {
			if strings.HasPrefix(key, prefix) {
				delete(o.retention.left, key)
			}
		}
	}
	change(1)
	return func() { change(-1) }
}

// judgeRetained judges that the retained records are there.
func (s *Simulation) judgeRetained() {
	records := s.world.All("ipallocations")
	s.oracles.mu.Lock()
	defer s.oracles.mu.Unlock()
	if s.oracles.off { // "A kcp that is restored from an old copy does not know newer claims"
		return
	}
	for _, key := range sorted(s.oracles.retention.left) {
		prefix := s.oracles.retention.left[key]
		words := strings.Split(key, "/")
		names := ipamv1alpha1.AllocationNames(words[1], words[2])
		if !slices.ContainsFunc(records, func(o simkcp.Object) bool {
			shown, _, _ := unstructured.NestedString(o.Object, "status", "allocatedCIDR")
			return letterOf(o.Cluster) == words[0] && o.GetNamespace() == words[1] && slices.Contains(names[:], o.GetName()) && shown == prefix.String()
		}) {
			s.find("RETAINED", "claim %s was deleted and had retained %s, nobody has deleted its record, and that is not there", key, prefix)
		}
	}
}
