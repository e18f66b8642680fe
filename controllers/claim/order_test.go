package claim

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/kcp-ipam/ipam/allocator"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// looks reconciles a claim of the tenant. It returns the claim's block, and whether an older claim was woken and has
// not asked since.
func (s *scene) looks(name string) (cidr string, behind bool) {
	s.Helper()
	claim := s.reconcile(name)
	return claim.Status.AllocatedCIDR, s.waiting.wokenBefore("tenant", claim.CreationTimestamp.Time, []topic{{poolTopic, "tenant", "own"}})
}

// older returns a function that makes a claim for a block of the pool named "own". The claim was created the duration
// age before the time made.
func older(made time.Time) func(name string, age time.Duration) *ipamv1alpha1.IPClaim {
	return func(name string, age time.Duration) *ipamv1alpha1.IPClaim {
		c := gen.Claim(name, gen.FromPool("own"), gen.Length(28))
		c.CreationTimestamp = metav1.NewTime(made.Add(-age))
		return c
	}
}

// The claims that waited for a new pool get its blocks in the order of their age, whichever pass sees the pool first: a
// pass that began before the claims were woken, a pass after that, or the CREATE of another claim.
func TestOrder_GivesANewPoolToTheOldest(t *testing.T) {
	t.Parallel()
	claim := older(time.Now().Truncate(time.Second).Add(-time.Minute))
	s := newScene(t, allocator.Options{}, offered(),
		claim("old", time.Hour), claim("middle", time.Minute), claim("young", time.Second), claim("youngest", 0))
	queue := inbox.NewQueue("test")
	defer queue.ShutDown()
	s.Queue = queue
	for _, name := range []string{"old", "middle", "young", "youngest"} {
		if got, _ := s.looks(name); got != "" {
			t.Fatalf("%s is bound to %s without a pool", name, got)
		}
	}
	pool := readyPool("own", "10.9.0.0/27")
	s.register(pool)
	must.Do(t, s.tenant.Client.Create(t.Context(), pool))
	if got, _ := s.looks("young"); got != "" {
		t.Errorf("before it is told of the pool, the young claim is bound to %s", got)
	}
	if answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: claim("newcomer", 0)}); !errors.Is(err, errBehind) {
		t.Errorf("Answer = %+v, %v; want %v", answer, err, errBehind)
	}
	s.onPool("tenant", nil).Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: pool}, queue)
	for _, name := range []string{"middle", "young"} {
		if got, behind := s.looks(name); got != "" || !behind {
			t.Errorf("before the old claim is looked at, the %s one has %q; want it to be behind", name, got)
		}
	}
	drain(queue)
	if got, _ := s.looks("old"); got != "10.9.0.0/28" {
		t.Errorf("the old claim is bound to %q, want 10.9.0.0/28", got)
	}
	if got := drain(queue); !slices.Equal(got, []string{"middle"}) {
		t.Errorf("queued are %v once the old claim was looked at, want the middle one", got)
	}
	if got, behind := s.looks("young"); got != "" || !behind {
		t.Errorf("before the middle claim is looked at again, the young one has %q; want it to be behind", got)
	}
	if got, _ := s.looks("middle"); got != "10.9.0.16/28" {
		t.Errorf("the middle claim is bound to %q, want 10.9.0.16/28", got)
	}
	if got := drain(queue); !slices.Equal(got, []string{"young"}) {
		t.Errorf("queued are %v once the middle claim was looked at, want the young one", got)
	}
	conditions := s.reconcile("young").Status.Conditions
	says := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated)
	if says == nil || says.Reason != string(ipamv1alpha1.ReasonPoolExhausted) {
		t.Errorf("the young claim says %+v, want the reason %s", says, ipamv1alpha1.ReasonPoolExhausted)
	}
	s.reconcile("youngest")
	if n := s.waiting.woken.Len(); n > 0 {
		t.Errorf("%d are woken after all were looked at, want none", n)
	}
}

// A former claim was woken, and then deleted. The new claim of its name does not inherit the former one's turn: the new
// claim comes after all older claims, and does not keep them waiting.
func TestOrder_PutsANewClaimBehindAllOlderClaims(t *testing.T) {
	t.Parallel()
	claim := older(time.Now().Truncate(time.Second).Add(-time.Minute))
	s := newScene(t, allocator.Options{}, offered(), claim("again", time.Hour), claim("old", time.Minute))
	queue := inbox.NewQueue("test")
	defer queue.ShutDown()
	s.Queue = queue
	s.looks("again")
	s.looks("old")
	pool := readyPool("own", "10.9.0.0/27")
	s.register(pool)
	must.Do(t, s.tenant.Client.Create(t.Context(), pool))
	s.onPool("tenant", nil).Create(t.Context(), event.TypedCreateEvent[client.Object]{Object: pool}, queue)
	must.Do(t, s.tenant.Client.Delete(t.Context(), claim("again", 0)))
	must.Do(t, s.tenant.Client.Create(t.Context(), claim("again", 0)))
	if got, behind := s.looks("old"); got != "" || !behind {
		t.Errorf("before the one that was made again is looked at, the old claim has %q; want it to be behind", got)
	}
	drain(queue)
	if got, behind := s.looks("again"); got != "" || !behind {
		t.Errorf("the claim that was made again has %q; want it to be behind the old one", got)
	}
	if got := drain(queue); !slices.Equal(got, []string{"old"}) {
		t.Errorf("queued are %v once the one that was made again was looked at, want the old one", got)
	}
	if got, _ := s.looks("old"); got != "10.9.0.0/28" {
		t.Errorf("the old claim is bound to %q, want 10.9.0.0/28", got)
	}
	if got := drain(queue); !slices.Equal(got, []string{"again"}) {
		t.Errorf("queued are %v once the old claim was looked at, want the one that was made again", got)
	}
	if got, _ := s.looks("again"); got != "10.9.0.16/28" {
		t.Errorf("the claim that was made again is bound to %q, want 10.9.0.16/28", got)
	}
	if n := s.waiting.woken.Len(); n > 0 {
		t.Errorf("%d are woken after all were looked at, want none", n)
	}
}

// An older claim was woken. A younger claim is behind it at each pool that could serve the older claim. While the older
// claim does not know its pools, the younger claim is behind it at every pool.
func TestOrder_AppliesToEachPoolThatCouldServeTheOlderClaim(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		older []topic
		want  error
		left  bool
	}{
		{name: "the same pool", older: []topic{{poolTopic, "tenant", "own"}}, want: errBehind},
		{name: "the same pool, until it goes", older: []topic{{poolTopic, "tenant", "own"}}, left: true},
		{name: "any pool of the workspace", older: []topic{{kind: labelTopic, cluster: "tenant"}}, want: errBehind},
		{name: "another pool", older: []topic{{poolTopic, "tenant", "full"}}},
		{name: "pools of a class", older: []topic{{backingTopic, "tenant", "c"}, {kind: classTopic, name: "c"}, {kind: nameTopic, cluster: "tenant"}}},
		{name: "a workspace that is not known", older: []topic{{kind: pathTopic, name: "root:x"}, {poolTopic, "", "full"}}, want: errBehind},
		{name: "a default class", older: []topic{{kind: defaultTopic}}, want: errBehind},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			pool := readyPool("own", "10.9.0.0/27")
			s := newScene(t, allocator.Options{}, offered(), pool)
			s.register(pool)
			s.waiting.enter(requestIn("tenant", "old"), gen.Claim("old"), row.older)
			s.waiting.wake(row.older...)
			if row.left {
				s.waiting.leave(requestIn("tenant", "old"))
			}
			young := gen.Claim("young", gen.FromPool("own"), gen.Length(28))
			young.CreationTimestamp = metav1.Now()
			answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: young})
			if !errors.Is(err, row.want) || (err == nil) != (answer.Status.AllocatedCIDR == "10.9.0.0/28") {
				t.Errorf("Answer = %+v, %v; want %v", answer, err, row.want)
			}
		})
	}
}

// An older claim by a class was woken when the class came, and does not know the parents of the class yet. A younger
// claim by the class is behind it.
func TestOrder_AppliesToANewClass(t *testing.T) {
	t.Parallel()
	n := newNetworks(t, "2001:db8::/48", ipamv1alpha1.RoleProject)
	class := []topic{{backingTopic, "tenant", endpoint}, {kind: classTopic, name: endpoint}}
	n.waiting.enter(requestIn("tenant", "old"), gen.Claim("old"), class)
	n.waiting.wake(class...)
	young := scoped("young", endpoint, "net", "ams")
	young.CreationTimestamp = metav1.Now()
	if answer, err := n.answered("tenant", young); !errors.Is(err, errBehind) {
		t.Errorf("Answer = %+v, %v; want %v", answer, err, errBehind)
	}
}

// A claim leaves a new pool to older claims only for a moment, even if the older claims are never woken.
func TestOrder_AppliesOnlyForAMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	s.waiting.enter(requestIn("tenant", "old"), gen.Claim("old"), []topic{{poolTopic, "tenant", "own"}})
	pool := readyPool("own", "10.9.0.0/28")
	s.register(pool)
	young := gen.Claim("young", gen.FromPool("own"), gen.Length(28))
	young.CreationTimestamp = metav1.Now()
	for _, object := range []client.Object{pool, young} {
		must.Do(t, s.tenant.Client.Create(t.Context(), object))
	}
	if got := s.reconcile("young").Status.AllocatedCIDR; got != "" {
		t.Errorf("the young claim is bound to %s at once", got)
	}
	s.later(coming + time.Second)
	if got := s.reconcile("young").Status.AllocatedCIDR; got != "10.9.0.0/28" {
		t.Errorf("the young claim is bound to %q in the end, want 10.9.0.0/28", got)
	}
}

// drain takes all requests out of a queue, and returns their names.
func drain(queue inbox.Queue) (names []string) {
	for queue.Len() > 0 {
		request, _ := queue.Get()
		queue.Done(request)
		names = append(names, request.Name)
	}
	return names
}

// Each woken claim asks before any younger one, and none is forgotten, in whatever order the queue runs them, and
// however often claims are woken again while passes run.
func TestWoken_AskInTheOrderOfAge(t *testing.T) {
	t.Parallel()
	const claims, workers = 100, 8
	var w waiting
	class := topic{kind: classTopic, name: "c"}
	made := func(i int) time.Time { return time.Unix(int64(i), 0) }
	place := map[mcreconcile.Request]int{}
	for i := range claims {
		c := gen.Claim("x")
		c.CreationTimestamp = metav1.NewTime(made(i))
		request := requestIn("a", fmt.Sprint(i))
		place[request] = i
		w.enter(request, c, []topic{class})
	}
	// As in a workqueue, no request is in two passes at a time, and one that is added during its pass is queued after it.
	due, running, dirty := map[mcreconcile.Request]bool{}, map[mcreconcile.Request]bool{}, map[mcreconcile.Request]bool{}
	add := func(request mcreconcile.Request) {
		if running[request] {
			dirty[request] = true
		} else {
			due[request] = true
		}
	}
	owed := map[int]bool{} // the woken claims that have not asked since
	any := func(of map[mcreconcile.Request]bool) mcreconcile.Request {
		all := slices.SortedFunc(maps.Keys(of), func(a, b mcreconcile.Request) int { return place[a] - place[b] })
		return all[rand.IntN(len(all))]
	}
	for step := 0; step < 2000 || len(due)+len(running) > 0; step++ {
		switch {
		case step < 2000 && rand.IntN(200) == 0:
			for _, request := range w.wake(class) {
				owed[place[request]] = true
				add(request)
			}
		case len(due) > 0 && len(running) < workers && rand.IntN(2) == 0:
			request := any(due)
			delete(due, request)
			running[request] = true
			w.begin(request)
		case len(running) > 0:
			request := any(running)
			i := place[request]
			behind := w.wokenBefore("a", made(i), []topic{class})
			older := slices.ContainsFunc(slices.Collect(maps.Keys(owed)), func(o int) bool { return o < i })
			if behind != older {
				t.Fatalf("claim %d is behind: %t, and %v are to ask", i, behind, slices.Sorted(maps.Keys(owed)))
			}
			parked, next, ok := w.end(request, behind)
			delete(running, request)
			if ok {
				add(next)
			}
			if behind && !parked {
				add(request)
			}
			if !behind && !dirty[request] {
				delete(owed, i)
			}
			if dirty[request] {
				delete(dirty, request)
				add(request)
			}
		}
	}
	if len(owed) > 0 || w.woken.Len() > 0 {
		t.Errorf("%v have never asked", slices.Sorted(maps.Keys(owed)))
	}
}
