package controllers

import (
	"context"
	"errors"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/must"
)

// counted is what the endpoints show: the same census each time, or none.
type counted struct {
	census  live.Census
	partial bool
	err     error
	times   int
}

func (c *counted) Census(context.Context) (live.Census, bool, error) {
	c.times++
	return c.census, !c.partial && c.err == nil, c.err
}

// binding serves a workspace at the path root:team.
func binding(cluster string) *apisv1alpha2.APIBinding {
	b := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{
		UID: types.UID(cluster), Annotations: map[string]string{"kcp.io/cluster": cluster, "kcp.io/path": "root:team"},
	}}
	conditions.MarkTrue(b, conditionsv1alpha1.ReadyCondition)
	return b
}

// recreated knows a workspace that is out of sight, and a later one that was made at the same path.
func recreated() *directory.Directory {
	d := directory.New(directory.Workspace{Cluster: "platform", Path: "root:ipam"})
	d.Seen("https://a", binding("former"))
	d.Closed("https://a")
	d.Seen("https://a", binding("later"))
	return d
}

// A workspace that is out of sight loses its path if complete lists lack it for a minute while another workspace shows
// the path. In any doubt, the path names neither of them.
func TestPaths_FreesThePathOfAWorkspaceThatIsGone(t *testing.T) {
	t.Parallel()
	later := map[ledger.ClusterName]bool{"later": true}
	for name, tt := range map[string]struct {
		counted
		want bool
	}{
		"gone":                      {counted{census: live.Census{Bound: later, Endpoints: 1, Since: time.Now().Add(-time.Hour)}}, true},
		"bound":                     {counted{census: live.Census{Bound: map[ledger.ClusterName]bool{"later": true, "former": true}, Endpoints: 1}}, false},
		"a partial view":            {counted{census: live.Census{Bound: later, Endpoints: 1}, partial: true}, false},
		"no endpoint":               {counted{}, false},
		"a shard away":              {counted{err: errors.New("connection refused")}, false},
		"a slice that was made new": {counted{census: live.Census{Bound: later, Endpoints: 1, Since: time.Now().Add(time.Hour)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := recreated()
			now := clocktesting.NewFakeClock(time.Unix(0, 0))
			p := &paths{directory: d, oracle: &tt.counted, clock: now}
			for look := range 3 {
				must.Be(t, p.look(t.Context()), tt.err)
				if got, ok := d.Find("root:team"); ok != (tt.want && look == 2) {
					t.Errorf("Find = %v, %t after %d looks", got, ok, look+1)
				}
				now.Step(live.Absence / 2)
			}
		})
	}
}

// If a workspace is shown once more, and goes out of sight again, its minute starts over.
func TestPaths_StartsOverForAWorkspaceSeenInBetween(t *testing.T) {
	t.Parallel()
	d := recreated()
	now := clocktesting.NewFakeClock(time.Unix(0, 0))
	p := &paths{directory: d, oracle: &counted{census: live.Census{Endpoints: 1}}, clock: now}
	for look := range 2 {
		must.Do(t, p.look(t.Context()))
		if got, ok := d.Find("root:team"); ok {
			t.Errorf("Find = %v after look %d, want nobody", got, look)
		}
		d.Seen("https://b", binding("former"))
		d.Closed("https://b")
		now.Step(live.Absence)
	}
}

// A look that fails neither counts, nor does it undo the looks before it.
func TestPaths_IgnoresALookThatFails(t *testing.T) {
	t.Parallel()
	now, d := clocktesting.NewFakeClock(time.Unix(0, 0)), recreated()
	servers := &counted{census: live.Census{Endpoints: 1}}
	p := &paths{directory: d, oracle: servers, clock: now}
	for look := range 3 {
		servers.err = map[int]error{1: errors.New("connection refused")}[look]
		must.Be(t, p.look(t.Context()), servers.err)
		now.Step(live.Absence / 2)
	}
	if got, ok := d.Find("root:team"); !ok || got.Cluster != "later" {
		t.Errorf("Find = %v, %t a minute after the first look, want later", got, ok)
	}
}

// The runnable looks at intervals, until its context ends.
func TestPaths_LooksAtIntervals(t *testing.T) {
	t.Parallel()
	d, now := recreated(), clocktesting.NewFakeClock(time.Unix(0, 0))
	p := &paths{directory: d, oracle: &counted{census: live.Census{Endpoints: 1}}, clock: now}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	ticking(t, now)
	err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
		now.Step(pathLooks)
		_, found := d.Find("root:team")
		return found, nil
	})
	cancel()
	must.Do(t, errors.Join(err, <-ended))
}

// If no other workspace shows the path of one that is out of sight, no server is asked.
func TestPaths_AsksNoServerAboutAnUncontestedPath(t *testing.T) {
	t.Parallel()
	d, servers := directory.New(directory.Workspace{Cluster: "platform"}), &counted{}
	d.Seen("https://a", binding("former"))
	d.Closed("https://a")
	p := &paths{directory: d, oracle: servers}
	if err := p.look(t.Context()); err != nil || servers.times != 0 {
		t.Errorf("look = %v after %d lists, want none", err, servers.times)
	}
}

// ticking returns once something waits for the clock.
func ticking(t *testing.T, c *clocktesting.FakeClock) {
	t.Helper()
	must.Do(t, wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(context.Context) (bool, error) {
		return c.HasWaiters(), nil
	}))
}
