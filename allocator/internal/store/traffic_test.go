package store

import (
	"testing"
	"testing/synctest"
	"time"
)

// A list waits for the transactions in flight, but not longer than maxGiveWay.
func TestTraffic_MakesAListWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way traffic
		waited := func(worked time.Duration) time.Duration {
			begun := time.Now()
			way.giveWay(t.Context(), worked)
			return time.Since(begun)
		}
		if d := waited(time.Second); d != 0 {
			t.Errorf("without transactions giveWay took %s, want 0", d)
		}
		end := way.Begin()
		for _, worked := range []time.Duration{0, time.Millisecond, time.Second} {
			if d := waited(worked); d != maxGiveWay {
				t.Errorf("after %s, beside a transaction that does not end, giveWay took %s, want %s", worked, d, maxGiveWay)
			}
		}
		time.AfterFunc(4*time.Millisecond, end)
		if d := waited(time.Millisecond); d != 4*time.Millisecond {
			t.Errorf("beside a transaction of 4 ms giveWay took %s", d)
		}
		if d := waited(time.Millisecond); d != 3*time.Millisecond {
			t.Errorf("between transactions giveWay took %s after 1 ms, want 3 ms", d)
		}
		<-time.After(2 * recent)
		if d := waited(time.Second); d != 0 {
			t.Errorf("long after all transactions giveWay took %s, want 0", d)
		}
	})
}

// Beside transactions a list reads small pages.
func TestTraffic_MakesPagesSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way traffic
		check := func(when string, want int) {
			t.Helper()
			if got := way.page(1_000); got != want {
				t.Errorf("%s a page has %d keys, want %d", when, got, want)
			}
		}
		check("before any transaction", 1_000)
		end := way.Begin()
		check("beside a transaction", 125)
		<-time.After(2 * recent)
		end()
		check("after a long transaction", 125)
		if got := way.page(4); got != 1 {
			t.Errorf("beside transactions a page of 4 has %d keys, want 1", got)
		}
		<-time.After(2 * recent)
		check("long after all transactions", 1_000)
	})
}
