package live

import (
	"testing"
	"time"
)

// A shard that is restarted may list no bindings for some seconds. Two such times, an hour apart, must not count as an
// absence of an hour. In between, the workspace is served, so nobody asks about it.
func TestAbsences_StartOverAfterALongTime(t *testing.T) {
	var a Absences
	now := time.Now()
	for _, look := range []struct {
		after   time.Duration
		verdict Verdict
		want    bool
	}{
		{0, Unbound, false},
		{time.Hour, Unbound, false},
		{Absence / 2, Unbound, false},
		{Absence / 2, Unbound, true},
		{time.Second, Alive, false},
		{Absence, Unbound, false},
	} {
		now = now.Add(look.after)
		if got := a.Confirm("one", look.verdict, now); got != look.want {
			t.Errorf("Confirm %s later = %t, want %t", look.after, got, look.want)
		}
	}
	a.Confirm("other", Unbound, now.Add(time.Hour))
	if len(a.seen) != 1 {
		t.Errorf("%d workspaces are remembered, want 1", len(a.seen))
	}
}
