package allocator

import (
	"testing"
	"testing/synctest"
	"time"
)

// A list waits for the transactions in flight, and not for ever.
func TestTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way traffic
		waited := func() time.Duration {
			begun := time.Now()
			way.giveWay(t.Context())
			return time.Since(begun)
		}
		if d := waited(); d != 0 {
			t.Errorf("without transactions giveWay took %s, want 0", d)
		}
		end := way.begin()
		if d := waited(); d != maxGiveWay {
			t.Errorf("beside a transaction that does not end giveWay took %s, want %s", d, maxGiveWay)
		}
		time.AfterFunc(time.Millisecond, end)
		if d := waited(); d != time.Millisecond {
			t.Errorf("beside a transaction of 1 ms giveWay took %s", d)
		}
		if d := waited(); d != 0 {
			t.Errorf("after all transactions giveWay took %s, want 0", d)
		}
	})
}

// Beside transactions a list reads small pages.
func TestTraffic_Page(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var way traffic
		check := func(when string, want int) {
			t.Helper()
			if got := way.page(1_000); got != want {
				t.Errorf("%s a page has %d keys, want %d", when, got, want)
			}
		}
		check("before any transaction", 1_000)
		end := way.begin()
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
