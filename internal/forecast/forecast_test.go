package forecast

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// after records the points: each is a number of hours since noon, and the number of addresses used then.
func after(t *testing.T, points ...int64) Samples {
	t.Helper()
	var s Samples
	for i := 0; i < len(points); i += 2 {
		next, wait := s.Record(noon.Add(time.Duration(points[i])*time.Hour), big.NewInt(points[i+1]))
		if wait != 0 {
			t.Fatalf("Record at hour %d is to wait for %s", points[i], wait)
		}
		s = next
	}
	return s
}

func TestFull(t *testing.T) {
	for name, tt := range map[string]struct {
		samples    Samples
		hour       int64
		used, free int64
		want       [3]string
	}{
		"no sample":            {nil, 100, 10, 90, [3]string{"too little data", "too little data", "too little data"}},
		"half a day":           {after(t, 0, 10), 12, 20, 80, [3]string{"too little data", "too little data", "too little data"}},
		"a day":                {after(t, 0, 10), 24, 20, 80, [3]string{"full in 8 days", "too little data", "too little data"}},
		"a month":              {after(t, 0, 0, 29*24, 100), 30 * 24, 150, 300, [3]string{"full in 6 days", "full in 14 days", "full in 60 days"}},
		"nothing new":          {after(t, 0, 10, 1, 50), 40 * 24, 50, 50, [3]string{"not full at this rate", "not full at this rate", "not full at this rate"}},
		"it shrinks":           {after(t, 0, 10, 24, 50, 14*24, 90), 31 * 24, 40, 60, [3]string{"not full at this rate", "not full at this rate", "not full at this rate"}},
		"it shrinks lately":    {after(t, 0, 10, 24, 50, 30*24, 90), 31*24 + 2, 60, 20, [3]string{"not full at this rate", "full in 14 days", "full in 60 days"}},
		"not in ten years":     {after(t, 0, 10), 24, 11, 4000, [3]string{"not full at this rate", "too little data", "too little data"}},
		"full":                 {after(t, 0, 10), 24, 100, 0, [3]string{"full", "too little data", "too little data"}},
		"soon":                 {after(t, 0, 10), 24, 58, 1, [3]string{"full within an hour", "too little data", "too little data"}},
		"in hours":             {after(t, 0, 10), 24, 34, 30, [3]string{"full in 30 hours", "too little data", "too little data"}},
		"a clock was set back": {after(t, 0, 10), -1, 34, 30, [3]string{"too little data", "too little data", "too little data"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := noon.Add(time.Duration(tt.hour) * time.Hour)
			for i, w := range Windows {
				if got := tt.samples.Full(now, big.NewInt(tt.used), big.NewInt(tt.free), w); got.String() != tt.want[i] {
					t.Errorf("by the last %s: %q, want %q", w.Name, got, tt.want[i])
				}
			}
		})
	}
}

// All addresses of an IPv6 pool count, also those that a float64 is too coarse to count.
func TestFull_CountsTheAddressesOfAHugePool(t *testing.T) {
	huge := new(big.Int).Lsh(big.NewInt(1), 120)
	s, _ := Samples(nil).Record(noon, huge)
	if got := s.Full(noon.Add(Day), new(big.Int).Add(huge, big.NewInt(10)), big.NewInt(100), Windows[0]); got.In != 10*Day {
		t.Errorf("10 more of 100 free addresses a day: %v, want full in 10 days", got)
	}
}

// Record adds a sample only an hour after the last one, and only if the number has changed.
func TestRecord(t *testing.T) {
	s := after(t, 0, 10)
	for name, tt := range map[string]struct {
		at   time.Duration
		used int64
		wait time.Duration
		want string
	}{
		"nothing new":    {5 * time.Hour, 10, 0, "1772366400=10"},
		"too early":      {20 * time.Minute, 11, 40 * time.Minute, "1772366400=10"},
		"an hour later":  {time.Hour, 11, 0, "1772366400=10 1772370000=11"},
		"clock set back": {-time.Hour, 11, 0, "1772362800=11"},
	} {
		t.Run(name, func(t *testing.T) {
			got, wait := s.Record(noon.Add(tt.at), big.NewInt(tt.used))
			if got.String() != tt.want || wait != tt.wait {
				t.Errorf("Record = %s, wait %s; want %s, wait %s", got, wait, tt.want, tt.wait)
			}
		})
	}
}

// With a change in every minute of two months, the samples stay few, and the forecasts are exact to a day.
func TestRecord_StaysSmall(t *testing.T) {
	var s Samples
	most := 0
	now := noon
	for minute := range 60 * 24 * 60 {
		now = noon.Add(time.Duration(minute) * time.Minute)
		s, _ = s.Record(now, big.NewInt(int64(minute)))
		most = max(most, len(s))
	}
	if most > 60 {
		t.Errorf("there were %d samples, want 60 at most", most)
	}
	for _, w := range Windows {
		// Each minute takes one address, so the free addresses last for ten days.
		got := s.Full(now, big.NewInt(60*24*60), big.NewInt(10*24*60), w)
		known := Day // the use at the window's begin is known to the day, for the last day to the hour
		if w.Length == Day {
			known = time.Hour
		}
		least := time.Duration(float64(10*Day) * w.Length.Seconds() / (w.Length + known).Seconds())
		if got.In < least || got.In > 10*Day {
			t.Errorf("by the last %s: full in %s, want %s to 240h", w.Name, got.In, least)
		}
	}
}

func TestParse_Refuses(t *testing.T) {
	for _, text := range []string{"x", "1", "1=", "=1", "1=-1", "1=0x10", "2=1 1=1", "1=1 1=1", "1=1,2=2", strings.Repeat("1", 20000)} {
		if s, err := Parse(text); err == nil {
			t.Errorf("Parse(%.20q) = %v, want an error", text, s)
		}
	}
}

// Samples that Parse reads are written in the same way, and no text written by hand breaks a forecast.
func FuzzParse(f *testing.F) {
	f.Add("1772366400=10 1772370000=11")
	f.Add("-9223372036854775808=340282366920938463463374607431768211456 9223372036854775807=0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(s.String())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(s) {
			t.Errorf("%q is read as %v, and written and read as %v, %v", text, s, again, err)
		}
		for _, w := range Windows {
			if got := s.Full(noon, big.NewInt(1), big.NewInt(1), w); got.In < 0 || got.In > horizon {
				t.Errorf("%q: full in %s by the last %s", text, got.In, w.Name)
			}
		}
		next, _ := s.Record(noon, big.NewInt(5))
		if _, err := Parse(next.String()); err != nil && len(next.String()) <= longest {
			t.Errorf("%q with a sample more is %q: %v", text, next, err)
		}
	})
}
