package page

import (
	"context"
	"time"
)

// reading shares one snapshot between the requests of a short time.
type reading struct {
	source Source
	now    func() time.Time
	// turn has the last snapshot while no request reads; a request waits for it, or for its own end.
	turn chan last
}

// last is the last snapshot, if there is one, and until when it is fresh.
type last struct {
	snapshot *Snapshot
	until    time.Time
}

func newReading(source Source, now func() time.Time) *reading {
	r := &reading{source: source, now: now, turn: make(chan last, 1)}
	r.turn <- last{}
	return r
}

// fresh is for how long a snapshot is used; one that took long to read, for several times that long.
const (
	fresh     = 2 * time.Second
	freshness = 4
)

// get is a snapshot that is fresh.
func (r *reading) get(ctx context.Context) (*Snapshot, error) {
	var now last
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case now = <-r.turn:
	}
	defer func() { r.turn <- now }()
	start := r.now()
	if now.snapshot != nil && start.Before(now.until) {
		return now.snapshot, nil
	}
	snapshot, err := r.source.Read(ctx)
	if err != nil {
		return nil, err
	}
	end := r.now()
	now = last{snapshot, end.Add(max(fresh, freshness*end.Sub(start)))}
	return snapshot, nil
}
