package pool

import (
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The status of an idle pool says when it goes.
func TestDerived_AnIdlePoolSaysWhenItGoes(t *testing.T) {
	s := newDerivedScene(t, made("a"))
	p := s.provisions(t, "net", "uid-of-root", 24, ledger.Holder{})
	if used, said := inUse(s.pool(t, "net-a")); used || said != "nobody uses the pool: it goes at 12:40:07 UTC, or when it is deleted" {
		t.Errorf("InUse = %t, %q; want that it goes", used, said)
	}
	s.Goes = func(of ledger.Pool) (time.Time, bool) { return goes, of.ID != p.ID }
	if _, said := inUse(s.pool(t, "net-a")); said != "nobody uses the pool: it goes when it is deleted" {
		t.Errorf("where idle pools stay, InUse says %q", said)
	}
	s.provisions(t, "sub", p.ID, 28, ledger.Holder{})
	const level = "nobody uses the pool: it goes after the pools inside, or when it is deleted; 1 idle pool has a block of it until 12:40:07 UTC"
	if _, said := inUse(s.pool(t, "net-a")); said != level {
		t.Errorf("with an idle pool inside, InUse says %q", said)
	}
}
