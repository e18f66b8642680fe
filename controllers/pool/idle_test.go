package pool

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/promise"
	"github.com/kcp-ipam/ipam/test/must"
)

// The status of an idle pool says when it goes.
func TestDerived_SaysWhenAnIdlePoolGoes(t *testing.T) {
	s := newDerivedScene(t, made("a"))
	p := s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{})
	if used, said := inUse(s.pool(t, "net-a")); used || said != "nobody uses the pool: it goes at 12:40:07 UTC, or when it is deleted" {
		t.Errorf("InUse = %t, %q; want that it goes", used, said)
	}
	s.Goes = func(of ledger.Pool) (time.Time, bool) { return goes, of.ID != p.ID }
	if _, said := inUse(s.pool(t, "net-a")); said != "nobody uses the pool: it goes when it is deleted" {
		t.Errorf("where idle pools stay, InUse says %q", said)
	}
	s.Goes = func(of ledger.Pool) (time.Time, bool) { return time.Time{}, true }
	if _, said := inUse(s.pool(t, "net-a")); said != "nobody uses the pool: it goes after the addresses that cool in it, or when it is deleted" {
		t.Errorf("where addresses cool, InUse says %q", said)
	}
	if _, said := inUse(s.pool(t, "root")); said != "nobody uses the pool; 1 idle pool has a block of it until the addresses in it have cooled" {
		t.Errorf("above a pool in which addresses cool, InUse says %q", said)
	}
	s.Goes = func(of ledger.Pool) (time.Time, bool) { return goes, of.ID != p.ID }
	s.provisions(t, "sub", p.ID, 28, ledger.Holder{})
	const level = "nobody uses the pool: it goes after the pools inside, or when it is deleted; 1 idle pool has a block of it until 12:40:07 UTC"
	if _, said := inUse(s.pool(t, "net-a")); said != level {
		t.Errorf("with an idle pool inside, InUse says %q", said)
	}
}

// If a claim was answered, and was not stored in time, the reason of the condition InUse says so to programs.
func TestPool_TellsOfClaimsThatWereNotStored(t *testing.T) {
	s := newDerivedScene(t)
	s.Answers = promise.NewAnswers(clock.RealClock{}, func(ledger.Holder) {})
	holder := ledger.Holder{Claim: promise.NewID("w", "default", "web"), Cluster: "w", Namespace: "default", Name: "web"}
	must.Do(t, s.Answers.Begin(holder))
	must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: "uid-of-root", Holder: holder, Length: 28}))(t)
	wants := func(after time.Duration, want ipamv1alpha1.Reason) {
		t.Helper()
		s.now = func() time.Time { return time.Now().Add(after) }
		used := meta.FindStatusCondition(s.pool(t, "root").Status.Conditions, ipamv1alpha1.ConditionInUse)
		unstored := want == ipamv1alpha1.ReasonClaimNotStored
		if used == nil || used.Status != "True" || used.Reason != string(want) || strings.Contains(used.Message, "not stored") != unstored {
			t.Errorf("%s after the answer InUse is %+v; want the reason %s", after, used, want)
		}
	}
	wants(0, ipamv1alpha1.ReasonInUse)
	wants(time.Minute, ipamv1alpha1.ReasonClaimNotStored)
	s.Answers.Stored(holder)
	wants(time.Minute, ipamv1alpha1.ReasonInUse)
}
