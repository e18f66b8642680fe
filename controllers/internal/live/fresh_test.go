package live

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowRead takes a second, and returns the time at which it began.
func slowRead(context.Context) (time.Time, error) {
	began := time.Now()
	<-time.After(time.Second)
	return began, nil
}

func TestFresh_NeverAnswersFromAReadThatBeganEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := &fresh[time.Time]{read: func(ctx context.Context) (time.Time, error) {
			reads++
			return slowRead(ctx)
		}}
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() {
				<-time.After(time.Duration(i) * 100 * time.Millisecond)
				asked := time.Now()
				began, err := f.get(t.Context())
				if err != nil {
					t.Errorf("get: %v", err)
				}
				if began.Before(asked) {
					t.Errorf("caller %d asked at %v and was answered from a read begun at %v", i, asked, began)
				}
			})
		}
		callers.Wait()
		// The first read serves the first caller. Each later read serves all callers that asked during the read before it.
		if reads != 3 {
			t.Errorf("20 callers over 2 s cost %d reads of 1 s, want 3", reads)
		}
	})
}

func TestFresh_HonoursTheCallersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fresh[time.Time]{read: slowRead}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("get = %v, want canceled", err)
		}
		<-time.After(2 * time.Second) // let the read end
	})
}

// A server that never answers blocks no caller. The callers that share the first read get an error. So do the callers
// of the next read, which begins then, and also gets no answer.
func TestFresh_EndsAReadThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		f := &fresh[int]{read: func(ctx context.Context) (int, error) {
			reads++
			if reads <= 2 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return reads, nil
		}}
		var callers sync.WaitGroup
		for i := range 3 {
			callers.Go(func() {
				<-time.After(time.Duration(i) * time.Second)
				if _, err := f.get(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("caller %d: get = %v, want %v", i, err, context.DeadlineExceeded)
				}
			})
		}
		callers.Wait()
		if got, err := f.get(t.Context()); got != 3 || err != nil {
			t.Errorf("get = %d, %v once the server answers, want the third read's 3", got, err)
		}
	})
}

// Keys share nothing, and nothing is kept of a key once nobody asks for it.
func TestFreshEach_KeepsKeysApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reads := map[string]int{}
		f := &freshEach[string, string]{read: func(_ context.Context, key string) (string, error) {
			mu.Lock()
			reads[key]++
			mu.Unlock()
			<-time.After(time.Second)
			return key, nil
		}}
		var callers sync.WaitGroup
		for i := range 20 {
			key := []string{"a", "b"}[i%2]
			callers.Go(func() {
				if got, err := f.get(t.Context(), key); got != key || err != nil {
					t.Errorf("get(%s) = %s, %v", key, got, err)
				}
			})
		}
		callers.Wait()
		if reads["a"] > 2 || reads["b"] > 2 {
			t.Errorf("10 callers of each key cost %v reads, want at most 2", reads)
		}
		if len(f.asked) != 0 {
			t.Errorf("kept of keys that nobody asks for: %v", f.asked)
		}
	})
}
