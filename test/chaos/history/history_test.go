package history

import (
	"encoding/json"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/test/gen"
)

// A history reports each problem, and no change that is right.
func TestHistory(t *testing.T) {
	t.Parallel()
	type step struct{ name, uid, cidr string } // no uid: deleted
	for _, tt := range []struct {
		name     string
		steps    []step
		problems int
		reused   int
	}{
		{"one after the other", []step{{"a", "1", "10.0.0.0/30"}, {"a", "", ""}, {"b", "2", "10.0.0.0/30"}}, 0, 1},
		{"side by side", []step{{"a", "1", "10.0.0.0/30"}, {"b", "2", "10.0.0.4/30"}}, 0, 0},
		{"recreated under its name", []step{{"a", "1", "10.0.0.0/30"}, {"a", "", ""}, {"a", "2", ""}, {"a", "2", "10.0.0.0/30"}}, 0, 1},
		{"at once", []step{{"a", "1", "10.0.0.0/30"}, {"b", "2", "10.0.0.0/30"}, {"a", "", ""}}, 1, 1},
		{"in part", []step{{"a", "1", "10.0.0.0/29"}, {"b", "2", "10.0.0.4/30"}}, 1, 0},
		{"another address", []step{{"a", "1", "10.0.0.0/30"}, {"a", "1", "10.0.0.4/30"}}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := blank()
			h.Include("w")
			for i, s := range tt.steps {
				kv := &mvccpb.KeyValue{ModRevision: int64(i)}
				if s.uid != "" {
					claim := gen.Claim(s.name, gen.UID(types.UID(s.uid)))
					claim.Status.AllocatedCIDR = s.cidr
					kv.Value, _ = json.Marshal(claim)
				}
				h.apply(claimKeys+"identity/w/default/"+s.name, kv)
			}
			_, reused, _ := h.Counts()
			if problems := h.Problems(); len(problems) != tt.problems || reused != tt.reused {
				t.Errorf("problems %q, %d reused; want %d, %d", problems, reused, tt.problems, tt.reused)
			}
		})
	}
}
