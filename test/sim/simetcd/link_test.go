package simetcd

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/kcp-ipam/ipam/test/must"
)

// fated returns a connection with the same fate for each request.
func (e *Etcd) fated(t *testing.T, f Fate) *Link {
	l := NewLink(e, func(any) Fate { return f }, func() time.Duration { return 0 })
	t.Cleanup(l.Cut)
	return l
}

func TestLink_DelaysAndLosesAPut(t *testing.T) {
	t.Parallel()
	const timeout, later = 5 * time.Second, 20 * time.Second
	for name, tt := range map[string]struct {
		fate        Fate
		err         error
		after       time.Duration // how long the client waits for its error
		stored      bool          // when the client learns it
		storedLater bool
	}{
		"slow":              {Fate{Before: time.Second, After: time.Second}, nil, 2 * time.Second, true, true},
		"lost":              {Fate{Before: time.Second, Lost: true}, errAway, time.Second, false, false},
		"lost, and hangs":   {Fate{Lost: true, Hang: true}, context.DeadlineExceeded, timeout, false, false},
		"mute":              {Fate{Before: time.Second, Mute: true}, errAway, time.Second, true, true},
		"mute, and hangs":   {Fate{Mute: true, Hang: true}, context.DeadlineExceeded, timeout, true, true},
		"late":              {Fate{Mute: true, Late: time.Second}, errAway, 0, false, true},
		"late, and hangs":   {Fate{Mute: true, Hang: true, Late: later / 2}, context.DeadlineExceeded, timeout, false, true},
		"slower than asked": {Fate{Before: later / 2}, context.DeadlineExceeded, timeout, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, began := New(), time.Now()
				c := e.fated(t, tt.fate).Client(t.Context())
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				_, err := c.Put(ctx, "a", "1")
				must.Be(t, err, tt.err)
				if got := time.Since(began); got != tt.after {
					t.Errorf("the client waited for %v, want %v", got, tt.after)
				}
				if got := e.Dump()["a"] == "1"; got != tt.stored {
					t.Errorf("stored = %t, want %t", got, tt.stored)
				}
				<-time.After(later)
				if got := e.Dump()["a"] == "1"; got != tt.storedLater {
					t.Errorf("stored later = %t, want %t", got, tt.storedLater)
				}
			})
		})
	}
}

func TestLink_CutEndsRequestsAndWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New()
		l := e.fated(t, Fate{Before: time.Second})
		c := l.Client(t.Context())
		watch := c.Watch(t.Context(), "a")
		time.AfterFunc(time.Second/2, l.Cut)
		must.Fail(c.Put(t.Context(), "a", "1"))(t, errAway)
		must.Fail(c.Get(t.Context(), "a"))(t, errAway)
		for resp := range watch {
			if !resp.Canceled {
				t.Errorf("the watch brought %v, want nothing", resp)
			}
		}
		if got := e.Revision(); got != 1 {
			t.Errorf("revision = %d after a put that was cut, want 1", got)
		}
		must.Get(e.calm(t).Put(t.Context(), "a", "2"))(t)
	})
}

// After a restart or a restore of the server, a watch goes on, unless its next revision was compacted.
func TestLink_WatchGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		restart func(e *Etcd, older *Snapshot)
		want    []string // values
		err     error
	}{
		"restarted":                        {func(e *Etcd, _ *Snapshot) { e.Break() }, []string{"2", "3", "4", "5"}, nil},
		"restored, and behind the watch":   {func(e *Etcd, s *Snapshot) { e.Restore(s, 0) }, []string{"2", "4", "5"}, nil},
		"restored, and ahead of the watch": {func(e *Etcd, s *Snapshot) { e.Restore(s, 100) }, []string{"2"}, rpctypes.ErrCompacted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := New()
				c := e.calm(t)
				must.Get(c.Put(t.Context(), "a", "1"))(t)
				older := e.Snapshot()
				watch := c.Watch(t.Context(), "a", clientv3.WithRev(3))
				must.Get(c.Put(t.Context(), "a", "2"))(t)
				var got []string
				got = append(got, values(<-watch)...)
				tt.restart(e, older)
				for _, v := range []string{"3", "4", "5"} {
					must.Get(c.Put(t.Context(), "a", v))(t)
				}
				for len(got) < len(tt.want) {
					got = append(got, values(<-watch)...)
				}
				if tt.err != nil {
					resp := <-watch
					must.Be(t, resp.Err(), tt.err)
				}
				synctest.Wait()
				select {
				case resp, open := <-watch:
					if open {
						t.Errorf("the watch brought more: %v", resp)
					}
				default:
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("the watch brought %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func values(resp clientv3.WatchResponse) (values []string) {
	for _, ev := range resp.Events {
		values = append(values, string(ev.Kv.Value))
	}
	return values
}

func TestLink_DelaysTheEventsOfAWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lag = 3 * time.Second
		e := New()
		l := NewLink(e, func(any) Fate { return Fate{} }, func() time.Duration { return lag })
		t.Cleanup(l.Cut)
		c := l.Client(t.Context())
		watch := c.Watch(t.Context(), "a")
		began := time.Now()
		must.Get(c.Put(t.Context(), "a", "1"))(t)
		must.Do(t, c.RequestProgress(t.Context()))
		if resp := <-watch; len(resp.Events) != 1 || time.Since(began) != lag {
			t.Errorf("the watch brought %v after %v, want one event after %v", resp, time.Since(began), lag)
		}
		if resp := <-watch; !resp.IsProgressNotify() || resp.Header.Revision != e.Revision() {
			t.Errorf("the watch brought %v, want its progress to %d", resp, e.Revision())
		}
	})
}

func TestEtcd_LosesRequestsOnTheirWayWhenItRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New()
		late := e.fated(t, Fate{Mute: true, Late: time.Second}).Client(t.Context())
		slow := e.fated(t, Fate{Before: time.Second}).Client(t.Context())
		must.Fail(late.Put(t.Context(), "late", "1"))(t, errAway)
		time.AfterFunc(time.Second/2, e.Break)
		must.Fail(slow.Put(t.Context(), "slow", "1"))(t, errAway)
		<-time.After(time.Second)
		if got := e.Dump(); len(got) != 0 {
			t.Errorf("stored %v, want nothing", got)
		}
	})
}
