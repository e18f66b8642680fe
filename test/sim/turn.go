package sim

import (
	"net/netip"
	"strings"
	"time"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// queued is how long a claim has to wait until it has its place in the order for certain.
const queued = time.Second

// wanted is an address that another claim has, and for which a claim waits.
type wanted struct {
	address netip.Addr
	since   time.Time
	freed   bool // a block of exactly this address was freed
}

// wait notes since when a claim has been waiting for room, or for an address.
func (t *told) wait(claim *ipamv1alpha1.IPClaim) {
	since := time.Now()
	if !t.waits.IsZero() {
		since = t.waits
	}
	t.waits = time.Time{}
	if reasonOf(claim) == ipamv1alpha1.ReasonPoolExhausted {
		t.waits = since
	}
	address, err := netip.ParseAddr(claim.Spec.Address)
	switch {
	case err != nil, reasonOf(claim) != ipamv1alpha1.ReasonAddressInUse:
		t.wants = wanted{}
	case t.wants.since.IsZero():
		t.wants = wanted{address: address, since: time.Now()}
	}
}

// passes judges that a claim which would take any address did not get the address for which another claim of its
// workspace waits: "a claim that waits for exactly the freed block comes before those that take any".
func (o *oracles) passes(claim *ipamv1alpha1.IPClaim, t *told) {
	if !o.s.profile.Fair || claim.Spec.Address != "" || claim.Spec.RetainedPolicy == ipamv1alpha1.RetainedReuse {
		return
	}
	workspace := t.key[:strings.Index(t.key, "/")+1]
	for _, other := range o.live {
		w := other.wants
		if strings.HasPrefix(other.key, workspace) && other.class == t.class && w.freed && time.Since(w.since) > queued && t.prefix.Contains(w.address) {
			o.s.find("ORDER", "%s got %s, and %s has been waiting for just that for %s", t.key, t.prefix, other.key, time.Since(w.since))
		}
	}
}

// frees notes, for the claims that wait for the address of a block, that this block is freed.
func (o *oracles) frees(t *told) {
	for _, other := range o.live {
		if w := &other.wants; other.class == t.class && !w.since.IsZero() && t.prefix.IsSingleIP() && t.prefix.Addr() == w.address {
			w.freed = true
		}
	}
}

// count judges that a workspace has no more addresses of a class than the class allows.
func (o *oracles) count(t *told) {
	most, n := classes[t.class].most, 0
	workspace := t.key[:strings.Index(t.key, "/")+1]
	for _, other := range o.live {
		if strings.HasPrefix(other.key, workspace) && other.class == t.class && other.prefix.IsValid() && !other.exempt {
			n++
		}
	}
	if most > 0 && n > most {
		o.s.find("LIMIT", "with %s, workspace %s has %d addresses of class %s, which allows %d", t.key, workspace, n, t.class, most)
	}
}
