package claim

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/controllers/record"
)

// cacheLag is how long the cache may take to show what was written.
const cacheLag = 10 * time.Second

// lag remembers of which claims the server has another record than the cache shows. It
// needs a clock. Safe for concurrent use.
type lag struct {
	clock clock.PassiveClock
	seen  sync.Map // types.UID of the claim → sight
}

// sight is what the cache showed when the server had another record.
type sight struct {
	slot    string // the name that the record has or is to have
	version string // of the record shown; empty for none
	at      time.Time
	met     bool // the other record was in the way of a new one
}

// wrote notes that a claim's record was made.
func (l *lag) wrote(claim types.UID, shown record.Slot) {
	l.seen.Store(claim, sight{slot: shown.Name, version: version(shown), at: l.clock.Now()})
}

// met notes that a record was in the way of a claim's: its own, as a rule, made by a
// pass that did not get the answer. It reports whether the cache may still come to
// show it.
func (l *lag) met(claim types.UID, shown record.Slot) bool {
	before, ok := l.seen.Load(claim)
	if ok && before.(sight).met && before.(sight).shows(shown) {
		return l.clock.Since(before.(sight).at) < cacheLag
	}
	l.seen.Store(claim, sight{slot: shown.Name, version: version(shown), at: l.clock.Now(), met: true})
	return true
}

// hides reports whether what the cache shows of a claim's record is no word on what
// the server has.
func (l *lag) hides(claim types.UID, shown record.Slot) bool {
	before, ok := l.seen.Load(claim)
	return ok && before.(sight).shows(shown) && l.clock.Since(before.(sight).at) < cacheLag
}

// forget forgets a claim that is gone, or whose record the cache shows.
func (l *lag) forget(claim types.UID) { l.seen.Delete(claim) }

// shows reports whether the cache still shows the same.
func (s sight) shows(now record.Slot) bool { return s.slot == now.Name && s.version == version(now) }

func version(of record.Slot) string {
	if of.Record == nil {
		return ""
	}
	return of.Record.ResourceVersion
}
