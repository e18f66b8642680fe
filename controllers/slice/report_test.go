package slice

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

func TestSay(t *testing.T) {
	const (
		given    = "Sliced=True SlicesGiven"
		isFull   = "Sliced=False PoolFull"
		taken    = "Sliced=False NameTaken"
		drainsOn = "Draining=True BlockInUse"
	)
	plain, sliced := gen.Pool("p"), gen.Pool("p", gen.Slices(24))
	saying := func(now census) *ipamv1alpha1.IPPool {
		pool := sliced.DeepCopy()
		say(pool, now)
		return pool
	}
	unsliced := saying(census{})
	unsliced.Spec.Slices = nil
	deleted := saying(census{})
	deleted.DeletionTimestamp = new(metav1.Now())
	for _, tt := range []struct {
		name string
		pool *ipamv1alpha1.IPPool
		now  census
		want []string
	}{
		{"no slices", plain, census{}, nil},
		{"no slices any more", unsliced, census{draining: 1}, []string{drainsOn}},
		{"nobody", sliced, census{}, []string{given}},
		{"nobody was looked at yet", sliced, census{unseen: 1}, []string{given}},
		{"one waits", sliced, census{waiting: 1, nameTaken: 1}, []string{isFull}},
		{"one has no room", sliced, census{unplaced: 1}, []string{isFull}},
		{"one has a pool of that name", sliced, census{nameTaken: 1}, []string{taken}},
		{"one drains", sliced, census{draining: 1}, []string{given, drainsOn}},
		{"the pool itself drains", deleted, census{draining: 1}, []string{given}},
		{"over", saying(census{waiting: 1, draining: 1}), census{}, []string{given}},
		{"over, unless somebody is not looked at yet", saying(census{waiting: 1, draining: 1}), census{unseen: 1}, []string{isFull, drainsOn}},
		{"worse, whoever is not looked at yet", saying(census{}), census{waiting: 1, draining: 1, unseen: 1}, []string{isFull, drainsOn}},
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
