package ledger

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors so far. On a machine that others use,
// it says more than how long something took.
func cpuTime() (time.Duration, error) {
	var used syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

// costs runs f from some callers for a while, and returns how often a second, and the time of the
// processors for each, in microseconds.
func costs(d time.Duration, callers int, f func() error) (rate, micros float64, err error) {
	before, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if rate, err = during(d, callers, f); err != nil {
		return 0, 0, err
	}
	steps := rate * time.Since(began).Seconds()
	after, err := cpuTime()
	return rate, float64((after - before).Microseconds()) / steps, err
}
