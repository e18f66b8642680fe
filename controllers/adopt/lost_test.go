package adopt

import (
	"context"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A pass reads all that is published. For a pool that nobody mends there are fewer and fewer.
func TestStart_APoolThatStaysStuck(t *testing.T) {
	l := newLoss(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	l.clock = clock
	l.whole(l.had(gen.Pool("k", gen.ChildOf("gone", 24)), "10.0.9.0/24", "lost", 3))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	want := []time.Duration{retry, 2 * retry, 4 * retry, 8 * retry, 16 * retry, longest, longest}
	var got []time.Duration
	l.after = func(pause time.Duration) <-chan time.Time {
		got = append(got, pause)
		clock.SetTime(clock.Now().Add(pause))
		if len(got) == len(want) {
			cancel()
		}
		over := make(chan time.Time, 1)
		over <- clock.Now()
		return over
	}
	if err := l.Start(ctx); err != nil || !slices.Equal(got[:len(want)], want) {
		t.Errorf("Start = %v, with the pauses %v; want %v", err, got, want)
	}
}

// For a pool that stays frozen no pass begins before its time. For one that is found lost it begins at once, and when a path is known: the
// former may lack nothing else.
func TestWhole_APoolThatStaysFrozenWaits(t *testing.T) {
	for name, cidr := range map[string]string{"stuck": "10.0.9.0/24", "forged": "10.0.9.0/240"} {
		t.Run(name, func(t *testing.T) {
			l := newLoss(t)
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			l.clock = clock
			begins := func(pool *ipamv1alpha1.IPPool) bool {
				if l.whole(pool) {
					t.Errorf("pool %s is whole", pool.Name)
				}
				select {
				case <-l.hint:
					return true
				default:
					return false
				}
			}
			wantPass := func(when string, pool *ipamv1alpha1.IPPool, want bool) {
				t.Helper()
				if got := begins(pool); got != want {
					t.Errorf("%s: a pass begins: %t; want %t", when, got, want)
				}
			}
			stays := l.had(gen.Pool("stays", gen.ChildOf("gone", 24)), cidr, "lost", 3)
			wantPass("found", stays, true)
			for range 2 {
				_ = l.pass(t.Context()) // other tests are about its answer
			}
			wantPass("left by a pass", stays, false)
			clock.SetTime(clock.Now().Add(retry))
			wantPass("left by the second pass", stays, false)
			wantPass("another one", l.had(gen.Pool("p"), "10.1.0.0/16", "lost", 7), true)
			clock.SetTime(clock.Now().Add(retry))
			wantPass("in time", stays, true)
			_ = l.pass(t.Context())
			wantPass("left by the third pass", stays, false)
			l.Named(directory.Workspace{})
			wantPass("when a path is known", stays, true)
		})
	}
}
