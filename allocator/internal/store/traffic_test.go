package store

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
		end := way.Begin()
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
