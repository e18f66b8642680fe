package main

import (
	"sync"
	"time"
)

// record is what was seen. Its methods are safe for concurrent use.
type record struct {
	mu      sync.Mutex
	began   time.Time
	binds   []bound
	strikes []strike
	endings map[string]int // of replicas by themselves
	held    int            // claims that are bound now
	waiting int            // claims that are not, or whose creation is not answered
	courses map[string]*course
	crowds  []crowd
	calms   []calm
}

// bound is one claim that was made and bound.
type bound struct {
	at   time.Time
	took time.Duration
}

// crowd is how many claims there were at a time.
type crowd struct {
	at            time.Time
	held, waiting int
}

// bound notes how long a claim took, from its creation on.
func (r *record) bound(began, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.binds = append(r.binds, bound{now, now.Sub(began)})
}

// waits counts a claim that waits, until what it returns is called.
func (r *record) waits() (done func()) {
	count := func(n int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.waiting += n
	}
	count(1)
	return func() { count(-1) }
}

// holds counts claims that are held, or no more.
func (r *record) holds(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
}

func (r *record) struck(s strike) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strikes = append(r.strikes, s)
}

func (r *record) ended(replica string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endings == nil {
		r.endings = map[string]int{}
	}
	r.endings[replica]++
}

// count notes how many claims there are now.
func (r *record) count(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.crowds = append(r.crowds, crowd{now, r.held, r.waiting})
}

// saw notes what a process has said of itself.
func (r *record) saw(process string, now reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.courses == nil {
		r.courses = map[string]*course{}
	}
	if r.courses[process] == nil {
		r.courses[process] = &course{}
	}
	r.courses[process].readings = append(r.courses[process].readings, now)
}

func (r *record) calm(c calm) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calms = append(r.calms, c)
}
