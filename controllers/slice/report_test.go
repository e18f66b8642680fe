package slice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestSay_ReportsTheWorstState(t *testing.T) {
	const (
		given    = "Sliced=True SlicesGiven"
		isFull   = "Sliced=False PoolFull"
		taken    = "Sliced=False NameTaken"
		drainsOn = "Draining=True BlockInUse"
	)
	plain, sliced := gen.Pool("p"), gen.Pool("p", gen.Slices(24))
	saying := func(now counts) *ipamv1alpha1.IPPool {
		pool := sliced.DeepCopy()
		say(pool, now)
		return pool
	}
	unsliced := saying(counts{})
	unsliced.Spec.Slices = nil
	deleted := saying(counts{})
	deleted.DeletionTimestamp = new(metav1.Now())
	for _, tt := range []struct {
		name string
		pool *ipamv1alpha1.IPPool
		now  counts
		want []string
	}{
		{"no slices", plain, counts{}, nil},
		{"no slices any more", unsliced, counts{draining: 1}, []string{drainsOn}},
		{"nobody", sliced, counts{}, []string{given}},
		{"nobody was looked at yet", sliced, counts{unseen: 1}, []string{given}},
		{"one waits", sliced, counts{waiting: 1, nameTaken: 1}, []string{isFull}},
		{"one has no room", sliced, counts{unplaced: 1}, []string{isFull}},
		{"one has a pool of that name", sliced, counts{nameTaken: 1}, []string{taken}},
		{"one drains", sliced, counts{draining: 1}, []string{given, drainsOn}},
		{"the pool itself drains", deleted, counts{draining: 1}, []string{given}},
		{"over", saying(counts{waiting: 1, draining: 1}), counts{}, []string{given}},
		{"over, unless somebody is not looked at yet", saying(counts{waiting: 1, draining: 1}), counts{unseen: 1}, []string{isFull, drainsOn}},
		{"worse, whoever is not looked at yet", saying(counts{}), counts{waiting: 1, draining: 1, unseen: 1}, []string{isFull, drainsOn}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := tt.pool.DeepCopy()
			say(pool, tt.now)
			var got []string
			for _, c := range pool.Status.Conditions {
				got = append(got, c.Type+"="+string(c.Status)+" "+c.Reason)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			again := pool.DeepCopy()
			say(again, tt.now)
			if diff := cmp.Diff(pool, again); diff != "" {
				t.Errorf("said twice (-once +twice):\n%s", diff)
			}
		})
	}
}
