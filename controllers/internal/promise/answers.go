package promise

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Grace is how long a block is kept after its CREATE was answered, if the claim is not seen. The API server ends a
// request after 60 s, and after that the CREATE cannot succeed any more. The other 15 s allow for the clocks of
// replicas, which may differ.
const Grace = 75 * time.Second

// MaxUnseen limits the answered CREATEs of one tenant whose claims were not seen. A claim that was created is seen
// within milliseconds. So if there are many such CREATEs, most of them have failed.
const MaxUnseen = 64

const (
	// turn is the time after the answer to a CREATE during which no other CREATE of the same name is answered, unless the
	// claim was seen. At most one CREATE of a name succeeds.
	turn = 5 * time.Second
	// landing is the time after which a bind whose caller has given up was usually committed, if ever.
	landing = 10 * time.Second
)

var (
	// ErrUnseen: the tenant has MaxUnseen answered CREATEs already whose claims were not seen.
	ErrUnseen = errors.New("too many CREATEs of this workspace were answered whose claims are not there; " +
		"try again in a minute")
	// ErrTurn: another CREATE of the name was answered a moment ago.
	ErrTurn = errors.New("an earlier CREATE of this claim is not settled yet")
)

// Young reports whether a CREATE that was answered with this block may still succeed, and leave a claim that shows the
// block. It judges by the block alone.
func Young(b ledger.Block, now time.Time) bool {
	return ledger.IsAllocationID(b.Holder.Claim) && now.Sub(b.BoundAt) < Grace
}

// Answers are the CREATEs that this process has answered with a block. Each stays until the claim was seen and its
// record written. Answers save a live read of each claim, and let the block of a failed CREATE be freed at once. No
// rule of safety depends on them, because the next leader begins without any. Make them with NewAnswers; nil remembers
// nothing. Safe for concurrent use.
type Answers struct {
	clock   clock.WithTicker
	suspect func(ledger.Holder)

	mu   sync.Mutex
	of   map[ledger.ClusterName]*answers // by tenant
	last map[ledger.Holder]*answer       // the last CREATE of each name; the key has no ID
}

// answers are the CREATEs of one tenant.
type answers struct {
	by     map[ledger.ClaimID]*answer
	unseen int // CREATEs that may still make a claim, or have left a block
}

// answer is a CREATE.
type answer struct {
	holder ledger.Holder
	at     time.Time
	stored bool      // the claim was seen
	failed bool      // nobody was told of the block
	free   bool      // failed, and the block was found to be free
	hinted time.Time // when the block was last hinted at
}

// NewAnswers makes Answers. They hint at a block, by a call of suspect with its holder, when the CREATE has failed, and
// when the claim was not seen for Grace.
func NewAnswers(c clock.WithTicker, suspect func(ledger.Holder)) *Answers {
	return &Answers{clock: c, suspect: suspect, of: map[ledger.ClusterName]*answers{}, last: map[ledger.Holder]*answer{}}
}

// Begin notes a CREATE that is about to get a block. It returns ErrTurn or ErrUnseen if the CREATE must not get one
// now.
func (a *Answers) Begin(h ledger.Holder) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now, before := a.clock.Now(), a.last[nameOf(h)]
	if before != nil && !before.stored && !before.failed && now.Sub(before.at) < turn {
		return ErrTurn
	}
	in := a.of[h.Tenant()]
	if in == nil {
		in = &answers{by: map[ledger.ClaimID]*answer{}}
	}
	if in.unseen >= MaxUnseen {
		return ErrUnseen
	}
	in.unseen++
	begun := &answer{holder: h, at: now}
	a.of[h.Tenant()], in.by[h.Claim], a.last[nameOf(h)] = in, begun, begun
	return nil
}

func nameOf(h ledger.Holder) ledger.Holder {
	h.Claim = ""
	return h
}

// Fail notes that a CREATE has failed, so nobody was told of its block. The block may have been bound, so Fail hints at
// it.
func (a *Answers) Fail(h ledger.Holder) {
	if a.change(h, func(of *answer) { of.failed, of.hinted = true, a.clock.Now() }) {
		a.suspect(h)
	}
}

// Stored notes that the claim was seen.
func (a *Answers) Stored(h ledger.Holder) { a.change(h, func(of *answer) { of.stored = true }) }

// Unrecorded reports whether it is certain that the claim of a holder has no record yet.
func (a *Answers) Unrecorded(h ledger.Holder) bool { return a.change(h, func(*answer) {}) }

// Unseen reports whether the CREATE of a holder was answered, and its claim was not seen.
func (a *Answers) Unseen(h ledger.Holder) bool {
	untold, failed := a.Untold(h)
	return untold && !failed
}

// Untold reports whether nobody can have seen a claim with the block, because the CREATE has failed, or the claim was
// not seen. failed reports whether the CREATE cannot succeed any more.
func (a *Answers) Untold(h ledger.Holder) (untold, failed bool) {
	a.change(h, func(of *answer) { untold, failed = !of.stored, of.failed })
	return untold, failed
}

// Forget forgets a CREATE that got no block, or whose record is written.
func (a *Answers) Forget(h ledger.Holder) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(h)
}

// Freed notes that the holder has nothing in the ledger, as far as is known. If the CREATE has failed just now, its
// bind may still be committed. Then the block is hinted at once more, after landing.
func (a *Answers) Freed(h ledger.Holder) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.find(h)
	switch {
	case of == nil:
	case !of.failed || a.clock.Since(of.at) >= landing:
		a.forget(h)
	case of.counts():
		of.free = true
		a.of[h.Tenant()].unseen--
	}
}

// find returns the answer to a CREATE; nil: none is remembered.
func (a *Answers) find(h ledger.Holder) *answer {
	if in := a.of[h.Tenant()]; in != nil {
		return in.by[h.Claim]
	}
	return nil
}

func (a *Answers) forget(h ledger.Holder) {
	in, of := a.of[h.Tenant()], a.find(h)
	if of == nil {
		return
	}
	if of.counts() {
		in.unseen--
	}
	if delete(in.by, h.Claim); len(in.by) == 0 {
		delete(a.of, h.Tenant())
	}
	if a.last[nameOf(h)] == of {
		delete(a.last, nameOf(h))
	}
}

// counts reports whether a CREATE may still make a claim, or has left a block.
func (a *answer) counts() bool { return !a.stored && !a.free }

// Count counts, by tenant, the CREATEs whose claims were not seen.
func (a *Answers) Count() map[ledger.ClusterName]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[ledger.ClusterName]int{}
	for tenant, in := range a.of {
		if in.unseen > 0 {
			counts[tenant] = in.unseen
		}
	}
	return counts
}

// change changes the facts of a CREATE, and reports whether the CREATE is remembered.
func (a *Answers) change(h ledger.Holder, edit func(*answer)) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	of := a.find(h)
	if of == nil {
		return false
	}
	counted := of.counts()
	if edit(of); counted && !of.counts() {
		a.of[h.Tenant()].unseen--
	}
	return true
}

var unseen = prometheus.NewGauge(prometheus.GaugeOpts{
	Name: "ipam_answers_unseen",
	Help: "CREATEs that were answered with a block, and whose claims nobody has seen.",
})

func init() { metrics.Registry.MustRegister(unseen) }

var _ manager.LeaderElectionRunnable = (*Answers)(nil)

// NeedLeaderElection says that the leader alone answers.
func (a *Answers) NeedLeaderElection() bool { return true }

// Start hints at blocks when they are due, until the context ends.
func (a *Answers) Start(ctx context.Context) error {
	ticker := a.clock.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return nil
		}
		total := 0
		for _, n := range a.Count() {
			total += n
		}
		unseen.Set(float64(total))
		for _, h := range a.due() {
			a.suspect(h)
		}
	}
}

// due lists the holders whose blocks to hint at now: landing after a CREATE that has failed, and Grace after any other.
func (a *Answers) due() (due []ledger.Holder) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for _, in := range a.of {
		for _, of := range in.by {
			after := Grace
			if of.failed {
				after = landing
			}
			if !of.stored && now.Sub(of.at) >= after && now.Sub(of.hinted) >= landing {
				of.hinted = now
				due = append(due, of.holder)
			}
		}
	}
	return due
}
