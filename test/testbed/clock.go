package testbed

import (
	"time"

	"k8s.io/utils/clock"
)

// Stopped is a clock that a test sets. Its timers are real.
type Stopped struct {
	clock.RealClock
	clock.PassiveClock
}

// Now implements clock.PassiveClock.
func (s Stopped) Now() time.Time { return s.PassiveClock.Now() }

// Since implements clock.PassiveClock.
func (s Stopped) Since(before time.Time) time.Duration { return s.PassiveClock.Since(before) }
