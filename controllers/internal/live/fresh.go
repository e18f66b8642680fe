package live

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// readTimeout limits a read. A server that never answers would otherwise block all releases. A shared read does not end
// with the context of a caller, so it would also block all later callers.
const readTimeout = 10 * time.Second

// fresh shares reads between callers that ask at the same time. It never answers from a read that began before the
// caller asked. A caller waits for at most two reads, and each of them ends within readTimeout. The zero value is not
// usable: set read. Safe for concurrent use.
//
//	caller A  |--read 1--|
//	caller B     |.......|--read 2--|     B may not use read 1, which began before it asked
//	caller C        |....|--read 2--|     C shares B's
type fresh[T any] struct {
	read  func(context.Context) (T, error)
	limit time.Duration // of a read; 0: readTimeout

	mu      sync.Mutex
	running *round[T] // begun; newcomers may not join it
	next    *round[T] // begins when running ends; newcomers join it
}

type round[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// get returns a value that was read entirely after get was called.
func (f *fresh[T]) get(ctx context.Context) (T, error) {
	f.mu.Lock()
	mine := f.next
	if mine == nil {
		mine = &round[T]{done: make(chan struct{})}
		f.next = mine
		if f.running == nil {
			f.begin(context.WithoutCancel(ctx))
		}
	}
	f.mu.Unlock()

	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var zero T
		return zero, ctx.Err()
	}
}

// begin runs the next round. The caller holds mu.
func (f *fresh[T]) begin(ctx context.Context) {
	f.running, f.next = f.next, nil
	go func(this *round[T]) {
		limited, cancel := context.WithTimeout(ctx, cmp.Or(f.limit, readTimeout))
		defer cancel()
		this.value, this.err = f.read(limited)
		close(this.done)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.running = nil
		if f.next != nil {
			f.begin(ctx)
		}
	}(f.running)
}

// Rounds reads a value for all callers that ask at the same time. Each caller gets a value from a read that began after
// it had asked, as in fresh. Make it with NewRounds. It is safe for concurrent use.
type Rounds[T any] struct{ reads fresh[T] }

// NewRounds makes Rounds that share the results of read. Each read is cancelled after limit; 0 means readTimeout.
func NewRounds[T any](limit time.Duration, read func(context.Context) (T, error)) *Rounds[T] {
	return &Rounds[T]{fresh[T]{limit: limit, read: read}}
}

// Get returns a value that was read entirely after the call. Callers share the value, and must not change it.
func (r *Rounds[T]) Get(ctx context.Context) (T, error) { return r.reads.get(ctx) }

// freshEach has a fresh for each key while callers ask for that key, and keeps nothing of other keys. The zero value is
// not usable: set read. Safe for concurrent use.
type freshEach[K comparable, T any] struct {
	read func(context.Context, K) (T, error)

	mu    sync.Mutex
	asked map[K]*asked[T]
}

type asked[T any] struct {
	fresh[T]
	callers int
}

// get returns a value of a key that was read entirely after get was called.
func (f *freshEach[K, T]) get(ctx context.Context, key K) (T, error) {
	f.mu.Lock()
	of := f.asked[key]
	if of == nil {
		of = &asked[T]{fresh: fresh[T]{read: func(ctx context.Context) (T, error) { return f.read(ctx, key) }}}
		if f.asked == nil {
			f.asked = map[K]*asked[T]{}
		}
		f.asked[key] = of
	}
	of.callers++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if of.callers--; of.callers == 0 {
			delete(f.asked, key)
		}
	}()
	return of.get(ctx)
}

// first asks all endpoints at the same time, and returns the first definite answer, for which ok is true. The other
// answers do not count then. So a shard that is away, or never answers, does not delay the answers about workspaces of
// another shard. Without a definite answer, first returns the errors.
func first[T any](
	ctx context.Context, endpoints []string, ask func(ctx context.Context, endpoint string) (T, bool, error),
) (T, bool, error) {
	type said struct {
		answer T
		ok     bool
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := make(chan said, len(endpoints)) // what comes too late is dropped
	for _, endpoint := range endpoints {
		go func() {
			answer, ok, err := ask(ctx, endpoint)
			all <- said{answer, ok, err}
		}()
	}
	var errs []error
	for range endpoints {
		s := <-all
		if s.ok {
			return s.answer, true, nil
		}
		errs = append(errs, s.err)
	}
	var none T
	return none, false, errors.Join(errs...)
}
