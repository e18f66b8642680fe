package claim

import (
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/record"
)

func TestMemory_RecordJustMade(t *testing.T) {
	m, clock := newMemory()
	if m.hides("uid", slot("")) {
		t.Error("the cache is not believed, and nothing was written")
	}
	m.made("uid", slot(""))
	if !m.hides("uid", slot("")) {
		t.Error("the cache is believed that does not show yet what was written")
	}
	if m.hides("uid", slot("2")) {
		t.Error("the cache is not believed when it shows another record than before")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if m.hides("uid", slot("")) {
		t.Error("the cache is never believed again")
	}
}

// The record of a former claim, deleted, may be shown when that of the new one is made.
func TestMemory_FormerRecordStillShown(t *testing.T) {
	m, _ := newMemory()
	m.made("uid", slot("1"))
	if !m.hides("uid", slot("1")) {
		t.Error("the cache is believed that shows what was deleted")
	}
	m.found("uid")
	if m.hides("uid", slot("1")) {
		t.Error("the cache is not believed after the record was seen")
	}
}

// A record that is in the way and never shows is an error in the end.
func TestMemory_RecordInTheWay(t *testing.T) {
	m, clock := newMemory()
	m.made("uid", slot(""))
	clock.SetTime(clock.Now().Add(time.Hour)) // the server was away
	if !m.met("uid", slot("")) || !m.hides("uid", slot("")) {
		t.Error("the cache gets no time to show what is in the way")
	}
	clock.SetTime(clock.Now().Add(cacheLag))
	if m.met("uid", slot("")) || m.hides("uid", slot("")) {
		t.Error("what the cache does not show for so long is no lag")
	}
	if !m.met("uid", slot("1")) {
		t.Error("the cache that shows something new gets no time to show more")
	}
}

func newMemory() (*memory, *testclock.FakePassiveClock) {
	clock := testclock.NewFakePassiveClock(time.Now())
	return &memory{clock: clock}, clock
}

// slot is one whose record has that version; without one there is no record.
func slot(version string) record.Slot {
	if version == "" {
		return record.Slot{Name: "alloc-1"}
	}
	r := &ipamv1alpha1.IPAllocation{}
	r.ResourceVersion = version
	return record.Slot{Name: "alloc-1", Record: r}
}

// The record of another claim name was in the way: the claim's own is to have another
// name, and the cache shows all there is to know of it.
func TestMemory_AnotherName(t *testing.T) {
	m, _ := newMemory()
	m.met("uid", slot(""))
	if m.hides("uid", record.Slot{Name: "alloc-2"}) {
		t.Error("hides(alloc-2) = true after alloc-1 was in the way; want false")
	}
}
