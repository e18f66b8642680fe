package tenants

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clocktesting "k8s.io/utils/clock/testing"
)

// A replica that engages nobody is not ready, after a grace time. One that serves others is,
// whoever is missing: the metrics tell.
func TestRoster_Ready(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := newRoster(clock)
	wants := func(when string, words ...string) {
		t.Helper()
		err := r.ready()
		if (err != nil) != (len(words) > 0) {
			t.Errorf("%s: ready = %v, want an error: %t", when, err, len(words) > 0)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: ready = %v, want it to say %q", when, err, word)
			}
		}
	}
	wants("nobody is bound")
	r.bind("a", true)
	r.bind("b", true)
	wants("two have just come")
	clock.SetTime(clock.Now().Add(grace))
	wants("they wait for the caches", "2 of 2", "caches")
	r.fail("a", errors.New("no such thing"))
	wants("one has failed", "2 of 2", "workspace a", "no such thing")
	r.engage(t.Context(), "b")
	wants("the other is served")
	r.bind("b", false)
	wants("only the failed one is left", "1 of 1", "workspace a")
	r.bind("a", false)
	wants("nobody is bound any more")
	r.bind("a", true)
	wants("it has come again")
}

func TestRoster_Counts(t *testing.T) {
	r := newRoster(clocktesting.NewFakePassiveClock(time.Now()))
	wants := func(when string, bound, engaged float64) {
		t.Helper()
		if b, e := value(t, boundWorkspaces), value(t, engagedWorkspaces); b != bound || e != engaged {
			t.Errorf("%s: %v bound and %v engaged, want %v and %v", when, b, e, bound, engaged)
		}
	}
	r.bind("a", true)
	r.bind("a", true)
	r.bind("b", true)
	wants("two bound", 2, 0)
	first, end := context.WithCancel(t.Context())
	r.engage(first, "a")
	wants("one engaged", 2, 1)
	end()
	second := t.Context()
	r.engage(second, "a")
	r.disengage(first, "a")
	wants("one engaged again before its former engagement was seen to end", 2, 1)
	r.disengage(second, "a")
	wants("one disengaged", 2, 0)
	r.bind("a", false)
	r.bind("b", false)
	wants("none bound", 0, 0)
}

func value(t *testing.T, gauge prometheus.Gauge) float64 {
	t.Helper()
	m := &dto.Metric{}
	if err := gauge.Write(m); err != nil {
		t.Fatal(err)
	}
	return m.GetGauge().GetValue()
}
