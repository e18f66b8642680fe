package slice

import (
	"fmt"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/allocator"
)

// Whoever waits longest is first, in whatever order they come, and a settled workspace
// leaves nothing behind.
func TestRolls(t *testing.T) {
	var (
		r     rolls
		now   = time.Now()
		at    = func(cluster allocator.ClusterName) request { return request{pool: "p", cluster: cluster} }
		first = func(want allocator.ClusterName) {
			t.Helper()
			if got, _, ok := r.first("p"); got != want || ok != (want != "") {
				t.Errorf("first is %q, want %q", got, want)
			}
		}
	)
	r.stand(at("early"), place{standing: waiting}) // of no account: the pool has no roll
	first("")
	r.open("p", "uid")
	for i, cluster := range []allocator.ClusterName{"young", "old", "oldest"} {
		r.expect(at(cluster))
		if before := r.stand(at(cluster), place{waiting, now.Add(-time.Duration(i) * time.Second)}); before != unseen {
			t.Errorf("%s stood as %v before, want unseen", cluster, before)
		}
	}
	first("oldest")
	r.expect(at("oldest")) // more is known already
	r.stand(at("oldest"), place{standing: unseen})
	first("old")
	r.stand(at("old"), place{standing: draining})
	first("young")
	if c := r.census("p"); c[waiting] != 1 || c[unseen] != 1 || c[draining] != 1 {
		t.Errorf("census is %v", c)
	}
	if got := fmt.Sprint(r.those("p", draining)); got != "[old]" {
		t.Errorf("draining are %s", got)
	}
	for _, cluster := range []allocator.ClusterName{"young", "old", "oldest"} {
		r.stand(at(cluster), place{})
	}
	first("")
	if l := r.byName["p"]; len(l.members) > 0 {
		t.Errorf("settled workspaces are on the roll: %v", l.members)
	}
	r.close("p")
	if r.known("p") {
		t.Error("the roll is open")
	}
}

func TestOlder(t *testing.T) {
	now := time.Now()
	if !older("b", now.Add(-1), "a", now) || older("b", now, "a", now) || !older("a", now, "b", now) {
		t.Error("age goes before the name, and the name decides among those of one age")
	}
}
