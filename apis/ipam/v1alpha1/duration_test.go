package v1alpha1

import (
	"testing"
	"time"
)

// A duration that is longer than any time is long, and not none.
func TestDuration_Value(t *testing.T) {
	const most = 250 * 365 * 24 * time.Hour
	for text, want := range map[Duration]time.Duration{
		"":                             0,
		"30s":                          30 * time.Second,
		"1h30m5s7ms":                   time.Hour + 30*time.Minute + 5*time.Second + 7*time.Millisecond,
		"999999h":                      999999 * time.Hour,
		"999999h999999h562045h":        most,
		"999999h999999h999999h999999h": most,
		"soon":                         0,
		"5":                            0,
	} {
		if got := text.Value(); got != want {
			t.Errorf("the value of %q is %s, want %s", text, got, want)
		}
	}
	if until := time.Now().Add(most + time.Second); !until.After(time.Now()) {
		t.Errorf("in %s it is %s, want a time to come", most, until)
	}
}
