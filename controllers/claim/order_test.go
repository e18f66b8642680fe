package claim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
)

// looks reconciles a claim of the tenant, and returns its block, and whether an older one was woken and not
// looked at.
func (s *scene) looks(name string) (cidr string, behind bool) {
	s.Helper()
	claim := s.reconcile(name)
	return claim.Status.AllocatedCIDR, s.waiting.wokenBefore("tenant", claim.CreationTimestamp.Time)
}

// A pool that comes is for the oldest of those that have waited for it, whichever pass sees it first: one that began before
// the others were woken, one that began since, and the CREATE of another claim.
func TestOrder_OfANewPool(t *testing.T) {
	t.Parallel()
	made := time.Now().Truncate(time.Second).Add(-time.Minute)
	claim := func(name string, age time.Duration) *ipamv1alpha1.IPClaim {
		c := gen.Claim(name, gen.FromPool("own"), gen.Length(28))
		c.CreationTimestamp = metav1.NewTime(made.Add(-age))
		return c
	}
	s := newScene(t, allocator.Options{}, offered(), claim("old", time.Hour), claim("young", time.Minute), claim("youngest", 0))
	queue := inbox.NewQueue("test")
	defer queue.ShutDown()
	s.queue = queue
	for _, name := range []string{"old", "young", "youngest"} {
		if got, _ := s.looks(name); got != "" {
			t.Fatalf("%s is bound to %s without a pool", name, got)
		}
	}
	pool := readyPool("own", "10.9.0.0/28")
	s.register(pool)
	if err := s.world.tenant.client.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if got, _ := s.looks("young"); got != "" {
		t.Errorf("before it is told of the pool, the young claim is bound to %s", got)
	}
	if answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim("newcomer", 0)}); !errors.Is(err, errBehind) {
		t.Errorf("Answer = %+v, %v; want %v", answer, err, errBehind)
	}
	s.onPool("tenant", nil).Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: pool}, queue)
	if got, behind := s.looks("young"); got != "" || !behind {
		t.Errorf("before the old claim is looked at, the young one has %q; want it to be behind", got)
	}
	if got, _ := s.looks("old"); got != "10.9.0.0/28" {
		t.Errorf("the old claim is bound to %q, want 10.9.0.0/28", got)
	}
	conditions := s.reconcile("young").Status.Conditions
	says := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated)
	if says == nil || says.Reason != string(ipamv1alpha1.ReasonPoolExhausted) {
		t.Errorf("the young claim says %+v, want the reason %s", says, ipamv1alpha1.ReasonPoolExhausted)
	}
	s.reconcile("youngest")
	if len(s.waiting.woken) > 0 {
		t.Errorf("woken are %v after all were looked at, want none", s.waiting.woken)
	}
}

// A claim leaves a new pool to older ones for a moment, though they are never woken.
func TestOrder_IsBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.waiting.enter(requestIn("tenant", "old"), gen.Claim("old"), []topic{{poolTopic, "tenant", "own"}})
	pool := readyPool("own", "10.9.0.0/28")
	s.register(pool)
	young := gen.Claim("young", gen.FromPool("own"), gen.Length(28))
	young.CreationTimestamp = metav1.Now()
	for _, object := range []client.Object{pool, young} {
		if err := s.world.tenant.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.reconcile("young").Status.AllocatedCIDR; got != "" {
		t.Errorf("the young claim is bound to %s at once", got)
	}
	s.later(coming + time.Second)
	if got := s.reconcile("young").Status.AllocatedCIDR; got != "10.9.0.0/28" {
		t.Errorf("the young claim is bound to %q in the end, want 10.9.0.0/28", got)
	}
}

// The oldest that was woken and not looked at is found among many, in whatever order they are looked at.
func TestWoken(t *testing.T) {
	t.Parallel()
	var w waiting
	start := time.Unix(0, 0)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }
	class, left := topic{kind: classTopic, name: "c"}, map[int]bool{}
	for i := range 100 {
		c := gen.Claim("x")
		c.CreationTimestamp = metav1.NewTime(at(i))
		w.enter(requestIn("a", fmt.Sprint(i)), c, []topic{class})
	}
	for range 1000 {
		if rand.IntN(20) == 0 {
			w.wake(class)
			for i := range 100 {
				left[i] = true
			}
		}
		i := rand.IntN(100)
		w.begin(requestIn("a", fmt.Sprint(i)))
		delete(left, i)
		oldest := 100
		for i := range left {
			oldest = min(oldest, i)
		}
		if w.wokenBefore("a", at(oldest)) || oldest < 100 && !w.wokenBefore("a", at(oldest+1)) || w.wokenBefore("b", at(100)) {
			t.Fatalf("the oldest that is left is %d, and the queue begins with %v", oldest, w.woken["a"].queue[0])
		}
	}
}
