package slice

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// The workspace that has waited longest is first, in whatever order they come, and a settled
// workspace leaves nothing behind.
func TestMemberLists(t *testing.T) {
	var (
		r     memberLists
		now   = time.Now()
		at    = func(cluster ledger.ClusterName) request { return request{pool: "p", cluster: cluster} }
		first = func(want ledger.ClusterName) {
			t.Helper()
			if got, _, ok := r.first("p"); got != want || ok != (want != "") {
				t.Errorf("first is %q, want %q", got, want)
			}
		}
	)
	r.set(at("early"), membership{state: waiting}) // ignored: the pool has no list
	first("")
	r.open("p", version{pool: "uid"})
	for i, cluster := range []ledger.ClusterName{"young", "old", "oldest"} {
		r.expect(at(cluster))
		if before := r.set(at(cluster), membership{waiting, now.Add(-time.Duration(i) * time.Second)}); before != unseen {
			t.Errorf("%s was in state %v before, want unseen", cluster, before)
		}
	}
	first("oldest")
	r.expect(at("oldest")) // more is known already
	r.set(at("oldest"), membership{state: unseen})
	first("old")
	r.set(at("old"), membership{state: draining})
	first("young")
	if c := r.counts("p"); c[waiting] != 1 || c[unseen] != 1 || c[draining] != 1 {
		t.Errorf("counts = %v, want one that waits, one unseen and one that drains", c)
	}
	if got := fmt.Sprint(r.inState("p", draining)); got != "[old]" {
		t.Errorf("draining are %s", got)
	}
	for _, cluster := range []ledger.ClusterName{"young", "old", "oldest"} {
		r.set(at(cluster), membership{})
	}
	first("")
	if l := r.byName["p"]; len(l.members) > 0 {
		t.Errorf("settled workspaces are on the list: %v", l.members)
	}
	r.close("p")
	if r.owner("p") != "" {
		t.Error("the list of a closed pool is known")
	}
}

func TestOlder(t *testing.T) {
	now := time.Now()
	if !older("b", now.Add(-1), "a", now) || older("b", now, "a", now) || !older("a", now, "b", now) {
		t.Error("age goes before the name, and the name decides among those of one age")
	}
}
