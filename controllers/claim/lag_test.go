package claim

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func TestLag_RecordJustMade(t *testing.T) {
	l, clock := newLag()
	if l.hides("uid", nil) {
		t.Error("the cache is not believed, and nothing was written")
	}
	l.wrote("uid", nil)
	if !l.hides("uid", nil) {
		t.Error("the cache is believed that does not show yet what was written")
	}
	if l.hides("uid", record("2")) {
		t.Error("the cache is not believed when it shows another record than before")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if l.hides("uid", nil) {
		t.Error("the cache is never believed again")
	}
}

// The record of a former claim, deleted, may be shown when that of the new one is made.
func TestLag_FormerRecordStillShown(t *testing.T) {
	l, _ := newLag()
	l.wrote("uid", record("1"))
	if !l.hides("uid", record("1")) {
		t.Error("the cache is believed that shows what was deleted")
	}
	l.forget("uid")
	if l.hides("uid", record("1")) {
		t.Error("the cache is not believed after the record was seen")
	}
}

// A record that is in the way and never shows is an error in the end.
func TestLag_RecordInTheWay(t *testing.T) {
	l, clock := newLag()
	l.wrote("uid", nil)
	clock.SetTime(clock.Now().Add(time.Hour)) // the server was away
	if !l.met("uid", nil) || !l.hides("uid", nil) {
		t.Error("the cache gets no time to show what is in the way")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if l.met("uid", nil) || l.hides("uid", nil) {
		t.Error("what the cache does not show for so long is no lag")
	}
	if !l.met("uid", record("1")) {
		t.Error("the cache that shows something new gets no time to show more")
	}
}

func newLag() (*lag, *testclock.FakePassiveClock) {
	clock := testclock.NewFakePassiveClock(time.Now())
	return &lag{clock: clock}, clock
}

func record(version string) *ipamv1alpha1.IPAllocation {
	r := &ipamv1alpha1.IPAllocation{}
	r.ResourceVersion = version
	return r
}
