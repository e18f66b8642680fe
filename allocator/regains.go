package allocator

// Regains reports whether a request would get a cooling block of its pool back, as known
// here: one that an object of the holder's name had before.
func (a *Allocator) Regains(r Request) bool {
	p, ok := a.table.find(r.Pool)
	if !ok {
		return false
	}
	p.space.lock()
	defer p.space.unlock()
	if p.State != PoolOpen || p.space.frozen() != thawed {
		return false
	}
	_, ok = p.regains(r)
	return ok
}
