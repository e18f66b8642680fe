package chaos

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// step is one block that was bound or freed. The steps of a revision are in order: first the bound blocks, as they
// stand in the transaction, then the freed ones. A transaction never hands out what it frees itself, so each of its
// requests finds the ledger as it is between two of these steps.
type step struct {
	revision     int64
	seen         int64
	space        ledger.SpaceID
	claim        ledger.ClaimID
	prefix       netip.Prefix
	bound        bool
	timed        bool  // no request caused it: a cooldown was over
	after, until int64 // it happened between these, in nanoseconds since the start of the run
}

// block is the content of a block's key, without the fields that may change freely.
type block struct {
	space  string
	prefix netip.Prefix
	claim  string
	pool   string    // missing in the claim's key
	state  string    // likewise; it changes
	name   string    // of the holder, likewise
	until  time.Time // likewise: when the state ends by itself; zero if it does not
}

// replay runs through the history of the ledger and checks each revision. It
// shares no code with the allocator.
type replay struct {
	started  time.Time         // the beginning of the run's times
	blocks   map[string]block  // by key
	claims   map[string]block  // by claim
	heads    map[string]int64  // by space
	pools    map[string]string // the states of registered pools
	office   office            // the head of the ledger that was put last
	steps    []step
	puts     map[string]bool // "revision claim prefix" of each block that was put
	problems []string
}

func newReplay(started time.Time, changes []change) *replay {
	r := &replay{started: started, blocks: map[string]block{}, claims: map[string]block{}, heads: map[string]int64{}, pools: map[string]string{}, puts: map[string]bool{}}
	for _, c := range changes {
		r.apply(c)
	}
	return r
}

func (r *replay) complain(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// apply applies one revision, and checks that the ledger is sound after it.
func (r *replay) apply(c change) {
	var bound, freed []step
	var moved []string // claims that gave or got a block without its being freed
	changed, headed, led := map[string]bool{}, map[string]bool{}, false
	for _, e := range c.events {
		kind, rest, _ := strings.Cut(e.key, "/")
		space, what, _ := strings.Cut(rest, "/")
		written, isBlock := strings.CutPrefix(what, "blocks/")
		switch {
		case kind == "head":
			led = true
			r.take(c.revision, e)
		case kind == "claims":
			r.claim(rest, e)
		case kind == "pools":
			r.pool(rest, e)
		case kind == "spaces" && what == "head":
			headed[space] = true
			r.head(c, space, e)
		case kind == "spaces" && isBlock && e.value == nil:
			b := r.blocks[e.key]
			delete(r.blocks, e.key)
			changed[space] = true
			r.over(c, b)
			freed = append(freed, b.step(c, false))
		case kind == "spaces" && isBlock:
			b := readBlock(space, written, e.value)
			r.puts[put(c.revision, b)] = true
			if e.created {
				changed[space] = true
				bound = append(bound, b.step(c, true))
			} else if old := r.blocks[e.key]; old.claim != b.claim {
				changed[space] = true
				moved = append(moved, old.claim, b.claim)
			}
			r.block(c.revision, e, b)
		}
	}
	if !led && slices.ContainsFunc(c.events, func(e event) bool { return e.key != "ledger" }) {
		r.complain("revision %d changes the ledger and not its head", c.revision)
	}
	for space := range headed {
		if slices.ContainsFunc(c.events, func(e event) bool { return e.key == "spaces/"+space+"/head" && e.value == nil }) {
			delete(r.heads, space)
		}
	}
	for space := range changed {
		if !headed[space] {
			r.complain("revision %d changes blocks of space %s and not its head", c.revision, space)
		}
	}
	r.steps = append(r.steps, append(bound, freed...)...)
	for _, s := range append(bound, freed...) {
		r.pair(c.revision, string(s.claim))
	}
	for _, claim := range moved {
		r.pair(c.revision, claim)
	}
	for key, b := range r.blocks {
		if r.pools[b.pool] == "" {
			r.complain("revision %d: %s is of pool %s, which is not there", c.revision, key, b.pool)
		}
	}
}

func (b block) step(c change, bound bool) step {
	return step{
		revision: c.revision, seen: c.seen, bound: bound,
		space: ledger.SpaceID(b.space), claim: ledger.ClaimID(b.claim), prefix: b.prefix, timed: !bound && b.state == cooling,
	}
}

func put(revision int64, b block) string { return fmt.Sprint(revision, b.claim, b.prefix) }

// head checks that a head counts the changes of its space one by one, so that each writer knew the head before. When
// an address space goes, the head of its pool also counts the changes of that space.
func (r *replay) head(c change, space string, e event) {
	var v struct{ N int64 }
	if e.value == nil {
		return // see apply
	}
	want := r.heads[space] + 1
	if n, ends := r.ends(c, space); ends {
		want = r.heads[space] + n
	}
	if err := json.Unmarshal(e.value, &v); err != nil || v.N != want {
		r.complain("revision %d: the head of space %s is %s after %d, want %d", c.revision, space, e.value, r.heads[space], want)
	}
	r.heads[space] = v.N
}

// ends returns the number of changes to the address space of a pool that this change removes; ok is false if it
// removes none.
func (r *replay) ends(c change, space string) (n int64, ok bool) {
	for _, e := range c.events {
		id, head := strings.CutSuffix(strings.TrimPrefix(e.key, "spaces/"), "/head")
		if of, apart := ledger.AddressSpaceOf(ledger.PoolID(id)); head && apart && e.value == nil && of == ledger.PoolID(space) {
			return r.heads[id], true
		}
	}
	return 0, false
}

// office is the head of the ledger: how often the office was taken, and how often that writer has put the head.
type office struct{ N, C int64 }

// take follows the head of the ledger. A writer puts one head after the other, and none once another writer has taken
// the office.
func (r *replay) take(revision int64, e event) {
	var next office
	err := json.Unmarshal(e.value, &next)
	sameWriter := next.N == r.office.N && next.C > r.office.C
	if another := next.N == r.office.N+1 && next.C == 0; err != nil || !sameWriter && !another {
		r.complain("revision %d: the head of the ledger is %s after %+v", revision, e.value, r.office)
	}
	r.office = next
}

func (r *replay) claim(id string, e event) {
	var v struct {
		Space  string
		Prefix netip.Prefix
	}
	if e.value == nil {
		delete(r.claims, id)
		return
	}
	if err := json.Unmarshal(e.value, &v); err != nil {
		r.complain("claim %s: %v", id, err)
	}
	r.claims[id] = block{space: v.Space, prefix: v.Prefix, claim: id}
}

// block checks invariant I1 for a block that was put.
func (r *replay) block(revision int64, e event, b block) {
	old, ok := r.blocks[e.key]
	handed := old.claim != b.claim && b.state == "bound" // between holders of one name
	same := old.claim == b.claim || handed || b.state == cooling
	forNobody := b.state == cooling && strings.HasPrefix(b.name, "cooling.") // that of a range in which addresses cool
	if ok && (!same || old.name != b.name && !forNobody || old.pool != b.pool) {
		r.complain("revision %d: %s was %s of claim %s, %s in %s, and is %s of claim %s, %s in %s",
			revision, e.key, old.state, old.claim, old.name, old.pool, b.state, b.claim, b.name, b.pool)
	}
	if !b.until.IsZero() && b.state == "bound" && !ledger.IsAllocationID(ledger.ClaimID(b.claim)) {
		r.complain("revision %d: %s is %s, and ends by itself", revision, e.key, b.state)
	}
	for key, other := range r.blocks {
		if key != e.key && other.space == b.space && other.prefix.Overlaps(b.prefix) {
			r.complain("I1: revision %d: %s of claim %s overlaps %s of claim %s", revision, b.prefix, b.claim, other.prefix, other.claim)
		}
	}
	r.blocks[e.key] = b
}

// pair checks invariants I2 and I3 for a claim: its key and its one block.
func (r *replay) pair(revision int64, claim string) {
	var own []block
	for _, b := range r.blocks {
		if b.claim == claim {
			own = append(own, b)
		}
	}
	says, ok := r.claims[claim]
	if len(own) == 1 {
		says.pool, says.name, says.state, says.until = own[0].pool, own[0].name, own[0].state, own[0].until
	}
	if len(own) > 1 {
		r.complain("I3: revision %d: claim %s has %v", revision, claim, own)
	}
	if ok != (len(own) == 1) || ok && says != own[0] {
		r.complain("I2: revision %d: claim %s says %v and has %v", revision, claim, says, own)
	}
}

// readBlock reads a block's key and value.
func readBlock(space, written string, value []byte) block {
	var v struct {
		Claim, Pool, Name, State string
		Until                    time.Time
	}
	if err := json.Unmarshal(value, &v); err != nil {
		panic(fmt.Sprintf("block %s: %v", written, err))
	}
	return block{space: space, prefix: readPrefix(written), claim: v.Claim, pool: v.Pool, name: v.Name, state: v.State, until: v.Until}
}

// readPrefix reads 010.000.000.000-08 or 2001:0db8:…-032.
func readPrefix(s string) netip.Prefix {
	var octets [4]byte
	var length int
	n, _ := fmt.Sscanf(s, "%d.%d.%d.%d-%d", &octets[0], &octets[1], &octets[2], &octets[3], &length)
	if n == 5 {
		return netip.PrefixFrom(netip.AddrFrom4(octets), length)
	}
	addr, bits, _ := strings.Cut(s, "-")
	_, _ = fmt.Sscanf(bits, "%d", &length)
	return netip.PrefixFrom(netip.MustParseAddr(addr), length)
}

// explain finds out between which moments each step happened: after a request for it, in the order of revisions, and
// before an answer showed it. It is a problem if no request asked for a step, or if an answer names a block that was
// never put.
func (r *replay) explain(operations []operation) {
	asked := map[string][]operation{}
	for _, op := range operations {
		asked[op.Do+string(op.Claim)] = append(asked[op.Do+string(op.Claim)], op)
		named := op.Revision > 0 && op.Refusal == "" && op.Unknown == ""
		if named && !r.puts[put(op.Revision, block{prefix: op.Prefix, claim: string(op.Claim)})] {
			r.complain("%v was answered %s at revision %d, and that was never put", op.request, op.Prefix, op.Revision)
		}
	}
	var after int64
	boundAfter := map[ledger.ClaimID]int64{}
	for i := range r.steps {
		s := &r.steps[i]
		s.until = s.seen
		switch {
		case s.timed:
			s.after = after
		case s.bound:
			s.since(append(asked["bind"+string(s.claim)], asked["carve"+string(s.claim)]...), math.MinInt64)
			boundAfter[s.claim] = s.after
		default:
			s.since(slices.Concat(asked["release"+string(s.claim)], asked["retire"+string(s.claim)], asked["close"+string(s.claim)], asked["expire"+string(s.claim)],
				asked["fail"+string(s.claim)]), boundAfter[s.claim])
		}
		if s.after == math.MaxInt64 {
			r.complain("revision %d: nobody has asked for %+v", s.revision, *s)
			s.after = after
		}
		after = max(after, s.after)
		s.after = after
	}
	r.order()
}

// since narrows the time of a step by the operations that may have caused it. If there is none, the field after stays
// at its maximum.
func (s *step) since(candidates []operation, from int64) {
	s.after = math.MaxInt64
	for _, op := range candidates {
		own := s.bound && op.Revision >= s.revision // more, if the block was changed before the answer was found
		if own {
			s.until = min(s.until, op.Return)
		}
		silent := op.Revision == 0 && op.Refusal == "" && op.Return >= from // it does not say which revision it was
		caused := own || silent || op.Unknown != ""
		if caused && op.Call <= s.seen {
			s.after = min(s.after, op.Call)
		}
	}
}

// order makes each step end no later than the steps after it.
func (r *replay) order() {
	until := int64(math.MaxInt64)
	for i := len(r.steps) - 1; i >= 0; i-- {
		s := &r.steps[i]
		until = min(until, s.until)
		s.until = until
		if s.after > s.until {
			r.complain("revision %d: %+v was known before it was asked for", s.revision, *s)
		}
	}
}
