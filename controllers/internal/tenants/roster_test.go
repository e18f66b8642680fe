package tenants

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// attendance is a roster of workspaces. Some of them are engaged.
type attendance struct {
	*testing.T
	*roster
	clock   *clocktesting.FakePassiveClock
	present map[multicluster.ClusterName]bool
}

func newAttendance(t *testing.T) attendance {
	a := attendance{T: t, clock: clocktesting.NewFakePassiveClock(time.Now()), present: map[multicluster.ClusterName]bool{}}
	a.roster = newRoster(a.clock, func(name multicluster.ClusterName) bool { return a.present[name] })
	return a
}

func (a attendance) pass(time time.Duration) { a.clock.SetTime(a.clock.Now().Add(time)) }

// wants expects the roster to be ready, or an error that says these words.
func (a attendance) wants(when string, words ...string) {
	a.Helper()
	err := a.ready()
	if (err != nil) != (len(words) > 0) {
		a.Errorf("%s: ready = %v, want an error: %t", when, err, len(words) > 0)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			a.Errorf("%s: ready = %v, want it to say %q", when, err, word)
		}
	}
}

func (a attendance) engage(name multicluster.ClusterName, engaged bool) {
	a.present[name] = engaged
	a.recount(name)
}

// If workspaces are bound, a replica that engages none of them is not ready, after a grace time. A replica that serves
// some is ready, whichever workspaces are missing. Metrics show the missing ones.
func TestRoster_IsReadyIfAnyWorkspaceIsEngaged(t *testing.T) {
	r := newAttendance(t)
	r.wants("no workspace is bound")
	r.bind("a", true)
	r.bind("b", true)
	r.wants("two have just come")
	r.pass(grace)
	r.wants("they wait for the caches", "2 of 2", "caches")
	r.fail("a", errors.New("no such thing"))
	r.wants("one has failed", "2 of 2", "workspace a", "no such thing")
	r.engage("b", true)
	r.wants("the other is served")
	r.bind("b", false)
	r.wants("only the failed one is left", "1 of 1", "workspace a")
	r.bind("a", false)
	r.wants("the last workspace is unbound")
	r.bind("a", true)
	r.wants("it has come again")
}

// A replica for which no endpoint has listed its workspaces is not ready. A replica that serves one shard is ready,
// whatever delays the others.
func TestRoster_IsNotReadyBeforeTheLists(t *testing.T) {
	r := newAttendance(t)
	r.await("u1", "APIBindings", 0)
	r.wants("the only endpoint has listed nothing", "APIBindings of endpoint u1")
	r.await("u1", "IPPools", 0)
	r.wants("a workspace is bound", "IPPools of endpoint u1")
	r.await("u2", "APIBindings", 0)
	r.wants("another has listed nothing either", "u1")
	r.await("u1", "IPClaims", listing)
	r.wants("it lists the claims")
	r.await("u2", "", 0)
	r.pass(listing)
	r.wants("it does so for too long, and the other has listed all")
	r.unlist("u2")
	r.wants("the slice lists the first alone", "IPClaims of endpoint u1")
	r.await("u1", "", 0)
	r.wants("it has listed all")
	r.unlist("u1")
	r.wants("the slice lists none")
}

// A replica that was ready stays ready for a while when the first tenant of a shard comes, or when an endpoint is
// opened again. If that endpoint then lists nothing, the replica becomes unready, however often the endpoint is opened.
func TestRoster_StaysReadyWhileAnEndpointComes(t *testing.T) {
	r := newAttendance(t)
	r.wants("there is no endpoint")
	for _, when := range []string{"the first", "opened again"} {
		r.await("u1", "APIBindings", 0)
		r.wants(when + " has just come")
		r.pass(grace / 2)
		r.await("u1", "IPPools", 0)
		r.wants(when + " is to list its pools")
		r.pass(grace / 4)
		r.await("u1", "APIBindings", 0)
		r.wants(when + " has failed, and is tried again")
		r.pass(grace / 4)
		r.wants(when+" has listed nothing for a minute", "u1")
		r.await("u1", "", 0)
		r.wants(when + " has listed all")
	}
}

func TestRoster_CountsBoundAndEngagedWorkspaces(t *testing.T) {
	r := newAttendance(t)
	wants := func(when string, bound, engaged float64) {
		t.Helper()
		if b, e := testutil.ToFloat64(boundWorkspaces), testutil.ToFloat64(engagedWorkspaces); b != bound || e != engaged {
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

// The roster knows which workspaces are bound when each endpoint of the slice has listed its APIBindings. Other lists
// do not matter.
func TestRoster_KnowsTheWorkspacesOnceAllBindingsAreListed(t *testing.T) {
	t.Parallel()
	r := newAttendance(t)
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
