package slice

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/catalog"
	"github.com/kcp-ipam/ipam/controllers/internal/decode"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/views"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// used is a ledger that has given all slices, none of them to the workspace. It counts the records that are put without
// a limit.
type used struct {
	views.Slices
	puts int
}

func (*used) Get(context.Context, ledger.PoolID, ledger.ClusterName) (s ledger.Slice, ok bool, err error) {
	return s, false, nil
}

func (u *used) Put(_ context.Context, _ ledger.Slice, limit int) error {
	if limit > 0 {
		return allocator.ErrSlicesGiven
	}
	u.puts++
	return nil
}

// The label of a slice can be stored past all policies. If all slices are given, a pool with only the label is not one:
// it takes the slice's name. A slice whose block was published always counts: the ledger may have lost it, and
// maxSlices may be lower now.
func TestWith_CountsNoForgedSliceBeyondTheLimit(t *testing.T) {
	t.Parallel()
	for shown, want := range map[string]state{"": nameTaken, "10.0.0.0/28": settled} {
		parent := gen.Pool("p", gen.Slices(28), gen.MaxSlices(1))
		child := gen.Pool("p", gen.ChildOf("p", 28), gen.Label(ipamv1alpha1.LabelSlice, string(parent.UID)))
		child.Status.AllocatedCIDR = shown
		ledger := &used{}
		p := &pass{
			Controller: &Controller{Options: Options{Ledger: views.Ledger{Slices: ledger}}, members: memberLists{}}, request: request{pool: "p", cluster: "w"},
			parent: parent, child: child, binding: &apisv1alpha2.APIBinding{},
		}
		got, err := p.with(t.Context())
		if given := ledger.puts > 0; err != nil || got != want || given != (want == settled) {
			t.Errorf("with the block %q published: with() = %v, %v, and the slice counts: %t; want %v", shown, got, err, given, want)
		}
	}
}

type unbound struct{ since time.Time }

func (u unbound) Holder(context.Context, ledger.Holder) (live.Answer, error) {
	return live.Answer{Verdict: live.Unbound, Since: u.since}, nil
}

// If a workspace is bound nowhere, its shard may be missing from an endpoint slice that was made after the binding, or
// may list nothing for some seconds. So the record stays until two looks agree, unless the workspace was seen to leave.
func TestConfirm_KeepsTheRecordUntilTwoLooksAgree(t *testing.T) {
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		bound    time.Time
		departed bool
		want     [3]error // at once, before the time is over, and then
	}{
		"younger than the endpoint slice": {bound: made.Add(time.Minute), want: [3]error{errDoubt, errDoubt, nil}},
		"older":                           {bound: made, want: [3]error{errDoubt, errDoubt, errDoubt}},
		"older, seen leaving":             {bound: made, departed: true},
	} {
		clock := clocktesting.NewFakePassiveClock(made.Add(time.Hour))
		p := &pass{Controller: &Controller{
			Options: Options{Oracle: unbound{made}, Departed: func(ledger.ClusterName) bool { return tt.departed }}, clock: clock,
		}}
		for i, passes := range []time.Duration{0, live.Absence - 1, 1} {
			clock.SetTime(clock.Now().Add(passes))
			if err := p.confirm(t.Context(), ledger.Slice{Cluster: "w", Since: tt.bound}, false); !errors.Is(err, tt.want[i]) {
				t.Errorf("%s: look %d: confirm = %v, want %v", name, i, err, tt.want[i])
			}
		}
	}
}

// If a workspace has an unreadable pool of the slice's name, its state is that the name is taken, and its slice is not
// made again and again.
func TestMember_TakesAnUnreadablePoolForOneOfTheName(t *testing.T) {
	t.Parallel()
	parent := gen.Pool("p", gen.Visible(ipamv1alpha1.VisibilityPlatform), gen.Slices(28), gen.MaxSlices(1))
	outcome.Succeed(&parent.Status.Conditions, 1, "")
	binding := testbed.Binding("w", "root:w")
	odd := gen.Pool("p")
	odd.Annotations = map[string]string{decode.Mark: "spec.x"}
	member := testbed.NewWorkspace(t)
	member.Client = testbed.NewClient(t).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return decode.Unreadable(odd)
		},
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
			list.(*apisv1alpha2.APIBindingList).Items = []apisv1alpha2.APIBinding{*binding}
			return nil
		},
	}).Build()
	known := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	known.Seen("endpoint", binding)
	clusters, slices := testbed.Clusters{"": testbed.NewWorkspace(t, parent), "w": member}, &used{}
	c := &Controller{Options: Options{
		Catalog: &catalog.Catalog{Clusters: clusters, Directory: known}, Directory: known, Ledger: views.Ledger{Slices: slices},
	}}
	p, ok, err := c.begin(t.Context(), request{pool: "p", cluster: "w"})
	if err != nil || !ok {
		t.Fatalf("begin = %t, %v", ok, err)
	}
	if got, err := p.look(t.Context()); got != nameTaken || err != nil || slices.puts > 0 {
		t.Errorf("look = %v, %v after %d puts; want that the name is taken, and none", got, err, slices.puts)
	}
}

// The member that has waited longest comes first, in whatever order the members come. A settled member leaves nothing
// behind.
func TestMemberLists_PutTheLongestWaitFirst(t *testing.T) {
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
	r.expect(at("oldest")) // changes nothing: the state is known already
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

func TestOlder_ComparesAgesThenNames(t *testing.T) {
	now := time.Now()
	if !older("b", now.Add(-1), "a", now) || older("b", now, "a", now) || !older("a", now, "b", now) {
		t.Error("age goes before the name, and the name decides among those of one age")
	}
}
