package space

// clock ends the holds that were made while the lock of the space was held once. Room for very many
// claims may appear at once, and a clock for each would cost as much as all else of waking them.
// The space's lock guards it.
type clock struct {
	waiters []*Waiter // that were held for, in order
	held    int       // how many of them still are
	stop    func() bool
}

// start starts the clock of a hold.
func (r *Room) start(w *Waiter) {
	if r.clock == nil || r.clock.held == 0 { // then it has stopped
		c := &clock{}
		c.stop = r.table.After(r.table.HoldTime, func() { r.expire(c) })
		r.clock = c
	}
	w.clock = r.clock
	w.clock.waiters = append(w.clock.waiters, w)
	w.clock.held++
}

// release ends that room is held for a waiter.
func (w *Waiter) release() {
	c := w.clock
	w.held, w.clock = false, nil
	if c.held--; c.held == 0 {
		c.stop()
	}
}

// expire passes on what is still held for claims that did not come. They wait on, as the
// youngest.
func (r *Room) expire(c *clock) {
	r.lock.Lock()
	defer r.lock.Unlock()
	now := r.table.Now()
	for _, w := range c.waiters {
		if w.clock != c { // it came, or has withdrawn
			continue
		}
		w.since = now
		r.giveUp(r.Pools.Find(w.request.Pool), w)
	}
}
