package tenants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/test/must"
)

// attendance is a roster of workspaces. Some of them are engaged.
type attendance struct {
	*roster
	present map[multicluster.ClusterName]bool
}

func newAttendance(clock *clocktesting.FakePassiveClock) attendance {
	present := map[multicluster.ClusterName]bool{}
	return attendance{roster: newRoster(clock, func(name multicluster.ClusterName) bool { return present[name] }), present: present}
}

func (a attendance) engage(name multicluster.ClusterName, engaged bool) {
	a.present[name] = engaged
	a.recount(name)
}

// A replica that engages nobody is not ready, after a grace time. One that serves others is,
// whoever is missing: the metrics tell.
func TestRoster_Ready(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := newAttendance(clock)
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
	r.engage("b", true)
	wants("the other is served")
	r.bind("b", false)
	wants("only the failed one is left", "1 of 1", "workspace a")
	r.bind("a", false)
	wants("nobody is bound any more")
	r.bind("a", true)
	wants("it has come again")
}

// A replica for which no endpoint has listed whom to serve is not ready. One that serves a shard is, whatever
// keeps the others.
func TestRoster_NotReadyBeforeTheLists(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := newAttendance(clock)
	wants := func(when, word string) {
		t.Helper()
		if err := r.ready(); (err != nil) != (word != "") || err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("%s: ready = %v, want an error with %q", when, err, word)
		}
	}
	r.await("u1", "APIBindings", 0)
	wants("the only endpoint has listed nothing", "APIBindings of endpoint u1")
	r.await("u1", "IPPools", 0)
	wants("a workspace is bound", "IPPools of endpoint u1")
	r.await("u2", "APIBindings", 0)
	wants("another has listed nothing either", "u1")
	r.await("u1", "IPClaims", listing)
	wants("it lists the claims", "")
	r.await("u2", "", 0)
	clock.SetTime(clock.Now().Add(listing))
	wants("it does so for too long, and the other has listed all", "")
	r.unlist("u2")
	wants("the slice lists the first alone", "IPClaims of endpoint u1")
	r.await("u1", "", 0)
	wants("it has listed all", "")
	r.unlist("u1")
	wants("the slice lists none", "")
}

// A replica that has served stays ready for a while when the first tenant of a shard comes, or when an endpoint is opened
// again, and is unready if that lists nothing, however often it is opened.
func TestRoster_ReadyWhileAnEndpointComes(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	r := newAttendance(clock)
	wants := func(when string, want bool) {
		t.Helper()
		if err := r.ready(); (err == nil) != want {
			t.Errorf("%s: ready = %v, want it ready: %t", when, err, want)
		}
	}
	wants("there is no endpoint", true)
	for _, when := range []string{"the first", "opened again"} {
		r.await("u1", "APIBindings", 0)
		wants(when+" has just come", true)
		clock.SetTime(clock.Now().Add(grace / 2))
		r.await("u1", "IPPools", 0)
		wants(when+" is to list its pools", true)
		clock.SetTime(clock.Now().Add(grace / 4))
		r.await("u1", "APIBindings", 0)
		wants(when+" has failed, and is tried again", true)
		clock.SetTime(clock.Now().Add(grace / 4))
		wants(when+" has listed nothing for a minute", false)
		r.await("u1", "", 0)
		wants(when+" has listed all", true)
	}
}

func TestRoster_Counts(t *testing.T) {
	r := newAttendance(clocktesting.NewFakePassiveClock(time.Now()))
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
	r.engage("a", true)
	wants("one engaged", 2, 1)
	r.recount("a")
	wants("the end of a former engagement was seen late", 2, 1)
	r.engage("a", false)
	wants("one disengaged", 2, 0)
	r.bind("a", false)
	r.bind("b", false)
	wants("none bound", 0, 0)
}

func value(t *testing.T, gauge prometheus.Gauge) float64 {
	t.Helper()
	m := &dto.Metric{}
	must.Do(t, gauge.Write(m))
	return m.GetGauge().GetValue()
}

// It is known who is bound when each endpoint of the slice has listed its APIBindings. What else it is to list is no matter.
func TestRoster_Knows(t *testing.T) {
	t.Parallel()
	r := newAttendance(clocktesting.NewFakePassiveClock(time.Now()))
	for _, step := range []struct {
		name string
		does func()
		want bool
	}{
		{"without endpoints", func() {}, true},
		{"with two that have listed nothing", func() { r.await("a", kindBindings, 0); r.await("b", kindBindings, 0) }, false},
		{"when one of them has", func() { r.await("a", "IPPools", 0) }, false},
		{"when both have", func() { r.await("b", "", 0) }, true},
		{"when one is opened again", func() { r.await("b", kindBindings, 0) }, false},
		{"when the slice does not list that any more", func() { r.unlist("b") }, true},
	} {
		if step.does(); r.knows() != step.want {
			t.Errorf("%s: knows = %t, want %t", step.name, r.knows(), step.want)
		}
	}
}
