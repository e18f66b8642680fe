package consumer

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

var gone = live.Sight{Verdict: live.Gone, Proven: true}

func TestReconcile_ReportsWhatTwoLooksFound(t *testing.T) {
	s := newScene(t, Options{}, owned("web"))
	s.sight = gone
	s.look("web")
	s.wantSaid("after the first look", "")
	s.lookAtOnce("web") // a hint
	s.wantSaid("after a look at the same moment", "")
	s.look("web")
	s.wantSaid("after the second look", ipamv1alpha1.ReasonConsumerNotFound)
	if s.lookMore("web"); s.writes != 1 || len(s.recorder.Events) != 1 {
		t.Errorf("%d writes and %d events, want one of each", s.writes, len(s.recorder.Events))
	}
	s.sight = pod(nil)
	s.look("web")
	s.wantSaid("once the consumer is back", "")
}

// What is seen between two looks that find the consumer gone makes them no two in a row.
func TestReconcile_LooksInARow(t *testing.T) {
	s := newScene(t, Options{}, owned("web"))
	for range 3 {
		s.sight = gone
		s.look("web")
		s.sight = pod(nil)
		s.look("web")
	}
	if s.writes != 0 {
		t.Errorf("%d writes, want none", s.writes)
	}
}

func TestReconcile_SaysNothingOfWhatItCannotSee(t *testing.T) {
	elsewhere := owned("elsewhere")
	elsewhere.Spec.OwnerRef.Namespace = "of-others"
	for name, sight := range map[string]live.Sight{"hidden": {Verdict: live.Hidden}, "unknown": {}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, Options{DeleteAbandoned: true}, owned("web"))
			s.sight = sight
			s.lookMore("web")
		})
	}
	t.Run("in another namespace", func(t *testing.T) {
		s := newScene(t, Options{DeleteAbandoned: true}, elsewhere)
		s.sight = gone
		if s.lookMore("elsewhere"); len(s.refs) != 0 {
			t.Errorf("asked for %v, want nothing", s.refs)
		}
	})
}

func TestReconcile_TakesBackWhatItCannotUphold(t *testing.T) {
	s := newScene(t, Options{}, owned("web"))
	s.sight = gone
	s.look("web")
	s.look("web")
	s.sight = live.Sight{}
	s.look("web")
	s.wantSaid("while nobody can tell", ipamv1alpha1.ReasonConsumerNotFound)
	s.sight = live.Sight{Verdict: live.Hidden}
	s.look("web")
	s.wantSaid("where the kind may not be read any more", "")
}

func TestReconcile_LeavesYoungClaimsAlone(t *testing.T) {
	s := newScene(t, Options{}, owned("web"))
	young := owned("young")
	young.CreationTimestamp = metav1.NewTime(s.clock.Now())
	testbed.Create(t, s.workspace, young)
	s.lookAtOnce("young")
	if len(s.refs) != 0 {
		t.Errorf("asked for %v of a claim of no age", s.refs)
	}
	s.look("young")
	s.look("young")
	if len(s.refs) == 0 {
		t.Error("not asked for once it is old enough")
	}
}

func TestReconcile_DeletesOnlyWhatIsWantedAndSure(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opts    Options
		change  func(*scene)
		deleted bool
	}{
		{"wanted", Options{DeleteAbandoned: true}, func(*scene) {}, true},
		{"not wanted", Options{}, func(*scene) {}, false},
		{"not proven", Options{DeleteAbandoned: true}, func(s *scene) { s.sight.Proven = false }, false},
		{"claim unknown to the server", Options{DeleteAbandoned: true}, func(s *scene) { s.holder = live.Unknown }, false},
		{"claim already gone", Options{DeleteAbandoned: true}, func(s *scene) { s.holder = live.Gone }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, tt.opts, owned("web"))
			s.sight = gone
			tt.change(s)
			s.look("web")
			s.look("web")
			s.wantSaid("after two looks", ipamv1alpha1.ReasonConsumerNotFound)
			s.look("web")
			if s.has("web") == tt.deleted {
				t.Errorf("deleted %t, want %t", !s.has("web"), tt.deleted)
			}
		})
	}
}

// A claim that is made again under the name is another one: nothing that was found of the
// former counts.
func TestReconcile_StartsAnewWithANewClaim(t *testing.T) {
	s := newScene(t, Options{DeleteAbandoned: true}, owned("web"))
	s.sight = gone
	s.look("web")
	s.look("web")
	must.Do(t, s.workspace.Delete(t.Context(), owned("web")))
	again := owned("web")
	again.UID = "another"
	testbed.Create(t, s.workspace, again)
	s.look("web")
	s.wantSaid("after the first look at a new claim", "")
}

// More abandoned claims than one would believe are none: nothing is deleted.
func TestReconcile_Brake(t *testing.T) {
	for _, tt := range []struct {
		claims  int
		deleted bool
	}{{few, true}, {few + 1, false}} {
		t.Run(fmt.Sprint(tt.claims), func(t *testing.T) {
			s := newScene(t, Options{DeleteAbandoned: true})
			var names []string
			for i := range tt.claims {
				name := fmt.Sprintf("web-%d", i)
				names = append(names, name)
				testbed.Create(t, s.workspace, owned(name))
			}
			s.sight = gone
			for range 3 {
				s.look(names...)
			}
			for _, name := range names {
				if s.has(name) == tt.deleted {
					t.Errorf("claim %s deleted %t, want %t", name, !s.has(name), tt.deleted)
				}
			}
		})
	}
}

// Deleting some makes no room for more: what was deleted counts for a while.
func TestBrake_CountsWhatWasDeleted(t *testing.T) {
	s := newScene(t, Options{})
	now := s.clock.Now()
	var b brake
	b.note("w", "1", true, now)
	b.note("w", "2", true, now)
	if b.free("w", 1, now) {
		t.Error("two abandoned claims are not over a limit of one")
	}
	if !b.free("w", 2, now) || !b.free("other", 0, now) {
		t.Error("the brake holds within the limit")
	}
	b.note("w", "2", false, now)
	if !b.free("w", 1, now) {
		t.Error("a claim counts whose consumer is back")
	}
	if !b.free("w", 0, now.Add(window+1)) {
		t.Error("a claim counts for ever")
	}
}

func TestIndexClaimByConsumer(t *testing.T) {
	claim := gen.Claim("web", gen.OwnedBy(ipamv1alpha1.OwnerRef{APIGroup: ipamv1alpha1.GroupName, Kind: "IPPool", Name: "p"}))
	if got := IndexClaimByConsumer(claim); len(got) != 1 || got[0] != indexKey(ipamv1alpha1.GroupName, "IPPool", "", "p") {
		t.Errorf("indexed by %q", got)
	}
	if got := IndexClaimByConsumer(gen.Claim("web")); len(got) != 0 {
		t.Errorf("a claim without a consumer is indexed by %q", got)
	}
}
