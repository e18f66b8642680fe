package space

import (
	"math/big"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// mostPreferred is how many waiters for exact prefixes, of one workspace at one pool, come before its waiters for any
// block. Without a bound, very many of them could take all room that becomes free. The youngest are preferred: a user
// who moves an address to another claim creates that claim just before, and may have old claims for other addresses
// that wait in vain.
const mostPreferred = 16

// sweep visits the waiters for the given things once, in their turn. It holds free room for the waiters that fit, and
// wakes any other waiter whose reason to wait has changed. Free room never grows during a sweep.
type sweep struct {
	room   *Room
	pool   *Pool
	exact  []thing // the things for exact prefixes
	round  *round
	firsts map[ledger.ClusterName][]*Waiter // the wishes of workspaces that have had a turn
}

// serve sweeps the waiters of a pool in which room has become free. Waiters that a limit stops are swept, too: a hold
// of their workspace may have ended.
func (r *Room) serve(p *Pool) {
	largest, free := p.Index.Largest()
	if !free || r.Pools.Frozen() != NotFrozen {
		return
	}
	things := p.Waiting.things(func(t thing) bool { return t.exact || t.length >= largest })
	if len(things) > 0 {
		r.sweep(p, things, p.Waiting.list.On(things...))
	}
}

// serveStopped sweeps a workspace's waiters at one pool, as far as a limit stops them.
func (r *Room) serveStopped(p *Pool, c ledger.ClusterName) {
	things := p.Waiting.things(func(t thing) bool { return t.reason != noRoom })
	if len(things) > 0 {
		r.sweep(p, things, p.Waiting.list.Of(string(c), things...))
	}
}

func (r *Room) sweep(p *Pool, things []thing, of *round) {
	exact := slices.DeleteFunc(things, func(t thing) bool { return !t.exact })
	s := sweep{room: r, pool: p, exact: exact, round: of, firsts: map[ledger.ClusterName][]*Waiter{}}
	frozen := r.Pools.Frozen() != NotFrozen
	for next := of.Next(); next != nil; next = of.Next() {
		s.judge(next.Value, !frozen && p.fits(next.Value))
	}
}

// judge holds room for a waiter, or tells its claim why it waits now. A waiter of the same workspace for an exact
// prefix may be served first: see wished. If a waiter goes on waiting for the same reason, judge passes over all
// waiters of its workspace for the same thing. Waiters for exact prefixes without room are not passed over: each needs
// room of its own.
func (s *sweep) judge(w *Waiter, fits bool) {
	if !fits && w.reason == noRoom {
		if !w.request.Exact.IsValid() {
			s.round.Leave()
		}
		return
	}
	broken := s.pool.Over(w.request, s.room.holds)
	if broken != nil && w.reason == reasonOf(broken) {
		s.round.Leave()
		return
	}
	if first := s.wished(w, fits); first != w {
		s.round.Again()
		w, broken = first, s.pool.Over(first.request, s.room.holds)
	}
	switch {
	case broken != nil:
		s.tell(w, reasonOf(broken))
	case fits:
		s.room.hold(s.pool, w)
	case w.request.Exact.IsValid() || s.hasPlace(w):
		s.tell(w, noRoom)
	default:
		s.round.Leave()
	}
}

// tell notes why a waiter waits, and wakes its claim if the reason has changed.
func (s *sweep) tell(w *Waiter, why reason) {
	if w.reason == why {
		return
	}
	w.reason = why
	s.pool.Waiting.put(w)
	s.room.news.wake(&w.request.Holder)
}

// hasPlace reports whether the limits of a waiter leave addresses for it, beside the waiters of the same kind that wait
// for room already. If one of these finds no room, none of them does. So no more waiters are told to wait for room than
// the limits could serve. The others are swept when one of these leaves without a block; see Room.remove.
func (s *sweep) hasPlace(w *Waiter) bool {
	told := s.pool.Waiting.list.Count(string(w.cluster()), thing{kindOf(w.request), noRoom})
	places := new(big.Int).Mul(big.NewInt(int64(told)), s.pool.wanted(w.request))
	pending := Pending{}
	for _, a := range limitedBy(w.request) {
		pending[a] = new(big.Int).Add(places, s.room.holds.Of(a))
	}
	return s.pool.Over(w.request, pending) == nil
}

// wished returns the waiter to serve in the turn of a workspace. inTurn is the waiter to which the round has come. If a
// waiter of the same workspace for an exact prefix comes first, wished returns that waiter, and each such waiter only
// once. Otherwise it returns inTurn.
func (s *sweep) wished(inTurn *Waiter, fits bool) *Waiter {
	if !fits || len(s.exact) == 0 {
		return inTurn
	}
	firsts, known := s.firsts[inTurn.cluster()]
	if !known {
		firsts = s.wishes(inTurn.cluster())
	}
	for len(firsts) > 0 && !s.pool.fits(firsts[0]) {
		firsts = firsts[1:]
	}
	first := inTurn
	if len(firsts) > 0 {
		first, firsts = firsts[0], firsts[1:]
	}
	s.firsts[inTurn.cluster()] = firsts
	return first
}

// wishes returns the waiters of a workspace that come before those for any block. The youngest waiters for exact
// prefixes choose the prefixes, and the oldest waiter for each chosen prefix that is free comes first.
func (s *sweep) wishes(c ledger.ClusterName) (firsts []*Waiter) {
	var all []*Waiter
	of := s.pool.Waiting.list.Of(string(c), s.exact...)
	for w := of.Next(); w != nil; w = of.Next() {
		all = append(all, w.Value)
	}
	for _, w := range all[max(0, len(all)-mostPreferred):] {
		oldest := all[slices.IndexFunc(all, func(o *Waiter) bool { return o.request.Exact == w.request.Exact })]
		if s.pool.fits(w) && !slices.Contains(firsts, oldest) {
			firsts = append(firsts, oldest)
		}
	}
	return firsts
}

// ServeStopped sweeps the waiters that limits on these accounts stop. It is called when fewer addresses are held on the
// accounts.
func (t *Table) ServeStopped(accounts []Account) {
	for _, a := range accounts {
		for _, id := range t.Waits.Pools(a.Cluster) {
			if a.pool == "" || a.pool == id {
				t.Visit(id, func(p *Pool) { p.In.Room.serveStopped(p, a.Cluster) })
			}
		}
	}
}
