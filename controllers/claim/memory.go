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

// cacheLag is how long the cache may take to show a write.
const cacheLag = 10 * time.Second

// memory has the facts about single claims that this replica knows, and that its cache does not show yet. It keeps a
// pass from repeating a write, and from binding a block for a claim that is gone. No rule of safety depends on memory:
// a restart loses it. An entry is removed when the cache shows the same, or when the claim's deletion is seen. A pass
// may add another entry after the deletion was seen: the end of the pass removes it. The clock is required. Safe for
// concurrent use.
type memory struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	claims map[types.UID]memo // claims about which something is known
	// the passes under way; each has its claim if the deletion of the claim was seen since the pass began
	passes map[mcreconcile.Request]*ipamv1alpha1.IPClaim
}

// memo is the entry of one claim.
type memo struct {
	written written   // our last write of the claim
	record  sight     // the record that the cache showed when the server had another one
	denied  time.Time // when a write first found that the server does not know the claim; zero: the server knows it
	failed  bool      // a reconcile ended with a fault, and none since found the claim settled
	lacking missing   // the block that the claim shows, and that the ledger did not have
}

// written is a write of a claim.
type written struct {
	on string // the resourceVersion of the claim before the write
	at time.Time
}

// missing is a block that a claim shows and the ledger does not have.
type missing struct {
	shown string
	since time.Time
}

// sight is the record of a claim as the cache showed it, when the server had another one.
type sight struct {
	slot    string // the name that the record has or is to have
	version string // of the shown record; empty: none was shown
	at      time.Time
	met     bool // the other record has the name that the claim's record was to get
}

// wrote notes that a claim was written. version is its resourceVersion before the write.
func (m *memory) wrote(claim types.UID, version string) {
	m.update(claim, func(known *memo) { known.written = written{on: version, at: m.clock.Now()} })
}

// outdated reports whether the cache still shows the claim as it was before our last write, so that the next write
// would repeat it. After cacheLag it reports false: a restored server may show the old version for ever.
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

// made notes that the record of a claim was created while the cache showed this slot.
func (m *memory) made(claim types.UID, shown record.Slot) {
	m.update(claim, func(known *memo) {
		known.record = sight{slot: shown.Name, version: version(shown), at: m.clock.Now()}
	})
}

// met notes that the record of a claim could not be created because its name is taken. Usually it is taken by the
// claim's own record, whose creation was not answered. met reports whether the cache may still come to show that
// record.
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

// found notes that a pass found the claim settled, with its record in the cache. It drops the notes of a stale record,
// of a fault, and of a block that the ledger lacked.
func (m *memory) found(claim types.UID) {
	m.update(claim, func(known *memo) { known.record, known.failed, known.lacking = sight{}, false, missing{} })
}

// recordFailure notes that a reconcile of a claim ended with a fault. again is true if an earlier reconcile failed,
// too, and none in between found the claim settled.
func (m *memory) recordFailure(claim types.UID) (again bool) {
	m.update(claim, func(known *memo) { again, known.failed = known.failed, true })
	return again
}

// lacks notes that the ledger does not have the block that a claim shows. before is true if that was first noted for
// this block at least the duration lasting ago. If the ledger is replaced by an older copy, the process ends sooner
// than that.
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

// markedGone reports whether a server did not know a claim (denied), and whether that was at least cacheLag ago, so
// that the cache would show a deletion by now (lasting).
func (m *memory) markedGone(claim types.UID) (denied, lasting bool) {
	since := m.of(claim).denied
	denied = !since.IsZero()
	return denied, denied && m.clock.Since(since) >= cacheLag
}

// markAlive notes that the server knows a claim after all.
func (m *memory) markAlive(claim types.UID) {
	m.update(claim, func(known *memo) { known.denied = time.Time{} })
}

// begin notes that a pass begins. It is called before the pass reads its claim.
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

// deletion returns the claim as it was last, if its deletion was seen since the pass began; otherwise nil.
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

// update applies a function to the memo of a claim, and deletes the memo if it is empty then.
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

// shows reports whether the cache shows the same now as when the sight was noted. It is false for the zero sight.
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

// confirmAlive asks the servers about a claim that a server did not know. A cache that has missed the deletion of a
// claim shows the claim until its next list. Until then each pass would bind a block for the claim, which would be
// freed again.
//
// If the cache still shows the claim cacheLag later, confirmAlive reports the claim as missed. It does not do so
// earlier, because the event of the deletion says more: whether the record was stored after the deletion, or is to be
// retained.
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
