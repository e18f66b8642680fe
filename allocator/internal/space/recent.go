package space

// recentKept is the least number of IDs that are remembered, and half of the most.
const recentKept = 8192

// recent is a set of IDs that forgets the oldest ones. The zero value is empty.
type recent[ID comparable] struct {
	now, former map[ID]struct{}
}

func (r *recent[ID]) has(id ID) bool {
	_, now := r.now[id]
	_, former := r.former[id]
	return now || former
}

func (r *recent[ID]) add(id ID) {
	if r.now == nil || len(r.now) >= recentKept {
		r.now, r.former = map[ID]struct{}{}, r.now
	}
	r.now[id] = struct{}{}
}

func (r *recent[ID]) forget(id ID) {
	delete(r.now, id)
	delete(r.former, id)
}
