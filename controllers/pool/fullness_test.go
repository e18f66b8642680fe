package pool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// An event tells when a pool passes 90 %, when it is exhausted, and when each of these ends. It is emitted once for
// each of them, however often claims at the border come and go.
func TestFullness_TellsOfEachChangeOnce(t *testing.T) {
	workspace := testbed.NewWorkspace(t)
	workspace.Events = events.NewFakeRecorder(10)
	pool := gen.Pool("p")
	for _, step := range []struct{ allocated, tells, reason string }{
		{"179", "", ""},
		{"180", "NearlyFull", "NearlyFull"},
		{"179", "", "NearlyFull"},
		{"180", "", "NearlyFull"},
		{"170", "", "NearlyFull"},
		{"169", "RoomAgain", ""},
		{"179", "", ""},
		{"199", "NearlyFull", "NearlyFull"},
		{"200", "Exhausted", "Exhausted"},
		{"199", "", "Exhausted"},
		{"200", "", "Exhausted"},
		{"190", "", "Exhausted"},
		{"189", "RoomAgain", "NearlyFull"},
		{"200", "Exhausted", "Exhausted"},
		{"0", "RoomAgain", ""},
		{"200", "Exhausted", "Exhausted"},
	} {
		p := &pass{cluster: workspace, pool: pool}
		p.reportFullness(capacity("200", step.allocated, 0))
		if p.news != nil {
			p.news()
		}
		said := emitted(workspace.Events)
		if want := step.tells; (want == "") != (len(said) == 0) || len(said) > 1 || want != "" && !strings.Contains(said[0], want+" "+step.allocated+" of 200 addresses are allocated") {
			t.Errorf("at %s of 200, the events are %q; want %q", step.allocated, said, want)
		}
		condition := meta.FindStatusCondition(pool.Status.Conditions, ipamv1alpha1.ConditionRunningOut)
		if got := fmt.Sprint(condition != nil); got != fmt.Sprint(step.reason != "") || condition != nil && condition.Reason != step.reason {
			t.Errorf("at %s of 200, the condition is %+v; want the reason %q", step.allocated, condition, step.reason)
		}
	}
}

// emitted returns the events that were emitted since the last call.
func emitted(recorder *events.FakeRecorder) (said []string) {
	for {
		select {
		case one := <-recorder.Events:
			said = append(said, one)
		default:
			return said
		}
	}
}

// The event is emitted once the status with the condition is stored, and not before. A pool that stays as full as it is
// is not written.
func TestReconcile_TellsOfAFullPoolOnceStored(t *testing.T) {
	s := newDerivedScene(t)
	s.pool(t, "root")
	for i, length := range []int{17, 18, 19, 20} { // 93.75 %
		holder := ledger.Holder{Claim: ledger.ClaimID(fmt.Sprint(i)), Cluster: "other", Namespace: "default", Name: fmt.Sprint(i)}
		must.Get(s.alloc.Bind(t.Context(), ledger.Request{Pool: "uid-of-root", Length: length, Holder: holder}))(t)
	}
	workspace, written := s.clusters.(testbed.Clusters)["w"].(*testbed.Workspace), 0
	workspace.Events = events.NewFakeRecorder(10)
	away := errors.New("the server is away")
	workspace.Client = interceptor.NewClient(workspace.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if written++; away != nil {
				return away
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	})
	request := inbox.Request("w", client.ObjectKey{Name: "root"})
	if _, err := s.Reconcile(t.Context(), request); !errors.Is(err, away) || len(emitted(workspace.Events)) > 0 {
		t.Errorf("while the status cannot be stored, Reconcile returns %v, and tells of it; want no event", err)
	}
	away, written = nil, 0
	must.Get(s.Reconcile(t.Context(), request))(t)
	if said := emitted(workspace.Events); len(said) != 1 || !strings.Contains(said[0], "NearlyFull 61440 of 65536 addresses are allocated") || written != 1 {
		t.Errorf("the events are %q after %d writes; want one of NearlyFull after one", said, written)
	}
	must.Get(s.Reconcile(t.Context(), request))(t)
	if said := emitted(workspace.Events); len(said) > 0 || written != 1 {
		t.Errorf("a pool that stays as it is emits %q and is written %d times; want none, and once", said, written)
	}
}
