package testbed

import (
	"time"

	"k8s.io/utils/clock"
)

// Stopped is a clock whose time a test sets. Its timers run by the real time.
type Stopped struct {
	clock.RealClock
	clock.PassiveClock
}

// Now implements clock.PassiveClock.
func (s Stopped) Now() time.Time { return s.PassiveClock.Now() }

// Since implements clock.PassiveClock.
func (s Stopped) Since(before time.Time) time.Duration { return s.PassiveClock.Since(before) }
