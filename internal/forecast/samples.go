// Package forecast says when a pool will be full, from samples of how many addresses of it were
// used. It imports nothing of this module.
package forecast

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// pause is the least time between two samples.
	pause = time.Hour
	// fine is the age up to which all samples are kept. Of older samples, the last one of each day is kept.
	fine = 25 * time.Hour
	// longest is the length of the longest text that Parse reads, in bytes.
	longest = 16 << 10
)

// Sample is how many addresses were used at a time, and from then on until the next sample.
type Sample struct {
	At   time.Time
	Used *big.Int
}

// Samples are the samples of one pool, the oldest first. The zero value has none. They are not changed once they are
// made, so several goroutines may read them.
type Samples []Sample

// Parse reads a text that String has written. It refuses all other text, also samples in another order.
func Parse(text string) (Samples, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("the samples take %d bytes, and may take %d", len(text), longest)
	}
	var s Samples
	for word := range strings.FieldsSeq(text) {
		at, used, _ := strings.Cut(word, "=")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the time of %q: %w", word, err)
		}
		n, ok := new(big.Int).SetString(used, 10)
		if !ok || n.Sign() < 0 {
			return nil, fmt.Errorf("%q is no sample; it is written as seconds=addresses", word)
		}
		next := Sample{time.Unix(seconds, 0).UTC(), n}
		if len(s) > 0 && !next.At.After(s[len(s)-1].At) {
			return nil, fmt.Errorf("%q is not later than the one before", word)
		}
		s = append(s, next)
	}
	return s, nil
}

// String writes the samples as seconds since 1970 and addresses: "1767225600=12 1767229200=40".
func (s Samples) String() string {
	var b strings.Builder
	for i, sample := range s {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d=%s", sample.At.Unix(), sample.Used)
	}
	return b.String()
}

// Record returns the samples with a new one, if the number has changed and the last sample is an hour old. If that is
// younger, wait is the time until then; else wait is 0. Samples that no forecast needs any longer are left out: the
// samples of a month are 57 at most.
func (s Samples) Record(now time.Time, used *big.Int) (next Samples, wait time.Duration) {
	now = now.UTC().Truncate(time.Second)
	if len(s) > 0 {
		last := s[len(s)-1]
		if last.Used.Cmp(used) == 0 {
			return s, 0
		}
		if age := now.Sub(last.At); age >= 0 && age < pause {
			return s, pause - age
		}
	}
	next = slices.Clone(s)
	// A clock that was ahead has left samples of the future, which say nothing.
	next = slices.DeleteFunc(next, func(old Sample) bool { return !old.At.Before(now) })
	next = append(next, Sample{now, new(big.Int).Set(used)})
	return next.thin(now), 0
}

// thin leaves out the samples that no forecast needs.
func (s Samples) thin(now time.Time) Samples {
	var kept Samples
	for i, sample := range s {
		if i+1 < len(s) {
			next := s[i+1].At
			if !next.After(now.Add(-Windows[len(Windows)-1].Length)) {
				continue // the next one says what was used when the longest window began
			}
			if !next.After(now.Add(-fine)) && day(next) == day(sample.At) {
				continue
			}
		}
		kept = append(kept, sample)
	}
	return kept
}

func day(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }
