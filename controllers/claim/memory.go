package claim

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

// cacheLag is how long the cache may take to show what was written.
const cacheLag = 10 * time.Second

// memory is what this replica knows of single claims and its cache does not show. It spares
// writes that are made already, and blocks for claims that are gone. No rule of safety depends on
// it: a restart loses it. An entry goes when the cache shows what it is about, with the event of its
// claim's deletion, or at the end of the pass during which that event came. It needs a clock. Safe for
// concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	claims map[types.UID]memo // claims about which something is known
	// those under way, each with the claim that was seen deleted since it began
	passes map[mcreconcile.Request]*ipamv1alpha1.IPClaim
}

// memo is what is known of one claim.
type memo struct {
	written written   // our last write of the claim
	record  sight     // what the cache showed when the server had another record
	denied  time.Time // when the server first did not know the claim, as it was written; zero: it did
	failed  bool      // a reconcile ended with a fault, and none has found all well since
	lacking missing   // what the claim shows and the ledger was found not to have
}

// written is a write of a claim.
type written struct {
	on string // the resourceVersion that the claim had before
	at time.Time
}

// missing is a block that a claim shows and the ledger does not have.
type missing struct {
	shown string
	since time.Time
}

// sight is what the cache showed of a claim's record when the server had another.
type sight struct {
	slot    string // the name that the record has or is to have
	version string // of the record shown; empty for none
	at      time.Time
	met     bool // the other record was in the way of a new one
}

// wrote notes that a claim was written as it was in a version.
func (m *memory) wrote(claim types.UID, version string) {
	m.update(claim, func(known *memo) { known.written = written{on: version, at: m.clock.Now()} })
}

// outdated reports whether the cache still shows the claim as it was before our last write: what
// would be written next is written already. It does so for cacheLag at most: a server that was restored may show that
// version for ever.
func (m *memory) outdated(claim types.UID, shown string) bool {
	stale := false
	m.update(claim, func(known *memo) {
		last := known.written
		if stale = last.on != "" && last.on == shown && m.clock.Since(last.at) < cacheLag; !stale {
			known.written = written{}
		}
	})
	return stale
}

// made notes that a claim's record was made.
func (m *memory) made(claim types.UID, shown record.Slot) {
	m.update(claim, func(known *memo) {
		known.record = sight{slot: shown.Name, version: version(shown), at: m.clock.Now()}
	})
}

// met notes that a record was in the way of a claim's: its own, as a rule, made by a
// pass that did not get the answer. It reports whether the cache may still come to
// show it.
func (m *memory) met(claim types.UID, shown record.Slot) (lags bool) {
	m.update(claim, func(known *memo) {
		if before := known.record; before.met && before.shows(shown) {
			lags = m.clock.Since(before.at) < cacheLag
			return
		}
		lags = true
		known.record = sight{slot: shown.Name, version: version(shown), at: m.clock.Now(), met: true}
	})
	return lags
}

// hides reports whether the server has, or may have, another record of a claim than the cache shows.
func (m *memory) hides(claim types.UID, shown record.Slot) bool {
	before := m.of(claim).record
	return before.shows(shown) && m.clock.Since(before.at) < cacheLag
}

// found notes that a reconcile saw the claim bound and its record in the cache: nothing is amiss any more.
func (m *memory) found(claim types.UID) {
	m.update(claim, func(known *memo) { known.record, known.failed, known.lacking = sight{}, false, missing{} })
}

// recordFailure notes that a reconcile of a claim ended with a fault, and reports whether the one before did, too.
func (m *memory) recordFailure(claim types.UID) (again bool) {
	m.update(claim, func(known *memo) { again, known.failed = known.failed, true })
	return again
}

// lacks notes that the ledger does not have the block that a claim shows, and reports whether that was seen
// long enough ago, too. A ledger that is replaced by an older copy under the process ends that before.
func (m *memory) lacks(claim types.UID, shown string) (before bool) {
	m.update(claim, func(known *memo) {
		if known.lacking.shown != shown {
			known.lacking = missing{shown: shown, since: m.clock.Now()}
		}
		before = m.clock.Since(known.lacking.since) >= lasting
	})
	return before
}

// markGone notes that the server does not know a claim that the cache shows.
func (m *memory) markGone(claim types.UID) {
	m.update(claim, func(known *memo) {
		if known.denied.IsZero() {
			known.denied = m.clock.Now()
		}
	})
}

// markedGone reports whether the server did not know a claim, and whether the cache has had its time to show that.
func (m *memory) markedGone(claim types.UID) (denied, lasting bool) {
	since := m.of(claim).denied
	denied = !since.IsZero()
	return denied, denied && m.clock.Since(since) >= cacheLag
}

// markAlive notes that the server knows a claim after all.
func (m *memory) markAlive(claim types.UID) {
	m.update(claim, func(known *memo) { known.denied = time.Time{} })
}

// begin notes that a pass begins: before it reads the claim.
func (m *memory) begin(pass mcreconcile.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.passes == nil {
		m.passes = map[mcreconcile.Request]*ipamv1alpha1.IPClaim{}
	}
	m.passes[pass] = nil
}

// end notes that a pass ends.
func (m *memory) end(pass mcreconcile.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.passes, pass)
}

// deleted tells the pass over a claim, if one is under way, that the deletion of the claim was seen.
func (m *memory) deleted(pass mcreconcile.Request, last *ipamv1alpha1.IPClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.passes[pass]; ok {
		m.passes[pass] = last
	}
}

// deletion returns the claim of a pass as its deletion was seen since the pass began; nil: it was not.
func (m *memory) deletion(pass mcreconcile.Request, claim types.UID) *ipamv1alpha1.IPClaim {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := m.passes[pass]; last != nil && last.UID == claim {
		return last
	}
	return nil
}

// forget forgets a claim that is gone.
func (m *memory) forget(claim types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.claims, claim)
}

func (m *memory) of(claim types.UID) memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claims[claim]
}

// update applies a function to the memo of a claim, and drops a memo that is empty.
func (m *memory) update(claim types.UID, change func(*memo)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.claims[claim]
	change(&known)
	if known == (memo{}) {
		delete(m.claims, claim)
		return
	}
	if m.claims == nil {
		m.claims = map[types.UID]memo{}
	}
	m.claims[claim] = known
}

// shows reports whether the cache shows the same now.
func (s sight) shows(now record.Slot) bool {
	return !s.at.IsZero() && s.slot == now.Name && s.version == version(now)
}

func version(of record.Slot) string {
	if of.Record == nil {
		return ""
	}
	return of.Record.ResourceVersion
}

// errGone: the claim does not exist, though the cache shows it.
var errGone = errors.New("the claim is gone, and the cache has missed it")

// confirmAlive asks the servers for a claim that they have denied before. A cache that has
// missed its deletion shows it until the next list: each look would bind it a block, only
// to have that freed again. After ten seconds a cache that still shows it has missed the deletion: that is a hint. The
// event of the deletion says more, which tells a record that was stored after it from one that is to be retained.
func (p *pass) confirmAlive(ctx context.Context) error {
	_, lasting := p.r.memory.markedGone(p.claim.UID)
	gone, err := p.r.Releases.Gone(ctx, p.itself())
	if err != nil {
		return err
	}
	if gone {
		p.waits.leave()
		unmet.remove(p.waits.request)
		if lasting {
			p.r.Releases.Missed(p.holder(), p.claim)
		}
		return errGone
	}
	p.r.memory.markAlive(p.claim.UID)
	p.facts.being = stored
	return nil
}
