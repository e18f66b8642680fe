package feed

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

func TestEngage_ShowsWhatIsThereThenWhatHappens(t *testing.T) {
	s := newScene(t)
	s.source.Add(claim("a", "old"))
	s.synced()
	a := s.engage("a")
	a.sees("+old")
	s.source.Add(claim("a", "new"))
	a.sees("+new")
	s.source.Modify(labelled(claim("a", "new")))
	a.sees("~new")
	s.source.Delete(claim("a", "old"))
	a.sees("-old")
}

// Changed is called when a workspace is engaged, and when it is disengaged.
func TestEngage_TellsOfEachChange(t *testing.T) {
	s := newScene(t)
	changes := make(chan multicluster.ClusterName, 10)
	s.feed.Changed = func(name multicluster.ClusterName) { changes <- name }
	a := s.engage("a")
	for _, when := range []string{"it was engaged", "it left"} {
		select {
		case name := <-changes:
			if name != "a" {
				t.Errorf("workspace %q has changed when %s, want a", name, when)
			}
		case <-time.After(soon):
			t.Fatalf("nothing was told when %s", when)
		}
		a.leave()
	}
}

func TestEngage_ShowsNothingOfOthers(t *testing.T) {
	s := newScene(t)
	a, b := s.engage("a"), s.engage("b")
	s.source.Add(claim("b", "x"))
	b.sees("+x")
	s.source.Add(claim("c", "nobody"))
	s.source.Delete(claim("b", "x"))
	s.source.Add(claim("a", "y"))
	b.sees("-x")
	a.sees("+y")
}

// A release needs the object as it was last seen. The handler gets it, even if only a list shows that the object is
// gone.
func TestEngage_ShowsTheLastObjectOfADeletion(t *testing.T) {
	s := newScene(t)
	a, b := s.engage("a"), s.engage("b")
	tap := s.feed.watches[0].taps["https://endpoint"]
	tap.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "a|default/x", Obj: labelled(claim("a", "x"))})
	a.sees("!x")
	if a.last.GetLabels()["seen"] != "last" {
		t.Errorf("the deletion handed %v", a.last)
	}
	b.sees()
}

// A list may show an object in the place of another one of the same name. That shows that the former object is gone.
func TestEngage_ShowsTheDeletionOfAReplacedObject(t *testing.T) {
	s := newScene(t)
	a := s.engage("a")
	tap := s.feed.watches[0].taps["https://endpoint"]
	before, after := claim("a", "x"), claim("a", "x")
	before.UID, after.UID = "1", "2"
	tap.OnUpdate(before, after)
	a.sees("!x", "+x")
	if a.last.GetUID() != "2" {
		t.Errorf("the last event handed the object %s, want the new one", a.last.GetUID())
	}
	tap.OnUpdate(after, labelled(after.DeepCopy()))
	a.sees("~x")
}

// If a list leaves an object out after the watch has broken, the object was deleted meanwhile. kcp's informer without
// the patch would show it for ever.
func TestEngage_ShowsADeletionThatNobodyWatched(t *testing.T) {
	s := newScene(t)
	s.source.Add(claim("w", "stays"))
	s.source.Add(claim("w", "goes"))
	s.synced()
	w := s.engage("w")
	w.seesAll(2)
	s.source.DeleteDropWatch(claim("w", "goes"))
	s.source.ResetWatch()
	for w.next() != "!goes" { // what is still there is shown again, or not
	}
	if keys := s.cache.GetIndexer().ListKeys(); len(keys) != 1 {
		t.Errorf("the cache shows %v", keys)
	}
}

func TestEngage_EndsWithItsContext(t *testing.T) {
	s := newScene(t)
	a, b := s.engage("a"), s.engage("b")
	a.leave()
	s.source.Add(claim("a", "x"))
	s.source.Add(claim("b", "x"))
	b.sees("+x") // so all earlier events were handled
	a.sees()
	again := s.engage("a")
	again.sees("+x")
	a.sees()
}

// A cluster that is not the provider's does not tell its endpoint, and is refused.
func TestEngage_RefusesAForeignCluster(t *testing.T) {
	s := newScene(t)
	if err := s.feed.Engage(t.Context(), "a", struct{ cluster.Cluster }{}); err == nil {
		t.Error("Engage = nil for a cluster that tells no endpoint")
	}
}

// If a watch cannot be opened, Engage fails, and leaves nothing behind. The next Engage shows every object.
func TestEngage_LeavesNothingBehindWhenItFails(t *testing.T) {
	s := newScene(t)
	s.source.Add(claim("a", "x"))
	s.synced()
	ctx, leave := context.WithCancel(t.Context())
	s.cache.broken.Store(true)
	if err := s.feed.Engage(ctx, "a", &shown{cache: s.cache}); err == nil {
		t.Fatal("Engage = nil although no watch can be opened")
	}
	leave()
	s.cache.broken.Store(false)
	s.engage("a").sees("+x")
}

// When a controller begins, its watch cannot be opened on one workspace. The controller begins all the same, and the
// workspace is engaged again.
func TestTenants_EngagesAFailedWorkspaceAgain(t *testing.T) {
	s := newScene(t)
	s.source.Add(claim("a", "x"))
	s.engage("a").sees("+x")
	var again []multicluster.ClusterName
	s.feed.Reengage = func(name multicluster.ClusterName) { again = append(again, name) }
	s.cache.broken.Store(true)
	s.watch()
	if want := []multicluster.ClusterName{"a"}; !slices.Equal(again, want) {
		t.Errorf("engaged again are %v, want %v", again, want)
	}
}

// A controller that begins after workspaces were engaged is shown their objects.
func TestTenants_ShowsObjectsToALateController(t *testing.T) {
	s := newScene(t)
	s.source.Add(claim("a", "x"))
	a := s.engage("a")
	a.sees("+x")
	late := s.watch()
	late.of("a").sees("+x")
	s.source.Add(claim("a", "y"))
	late.of("a").sees("+y")
	a.sees("+y")
}

// An object is shown, whether its event comes before, during or after the engagement of its workspace.
func TestEngage_LosesNothingThatComesMeanwhile(t *testing.T) {
	s := newScene(t)
	s.engage("first") // the cache is followed from now on
	const workspaces, claims = 20, 50
	added := make(chan struct{})
	go func() {
		defer close(added)
		for i := range claims {
			for w := range workspaces {
				s.source.Add(claim(fmt.Sprint("w", w), fmt.Sprint("c", i)))
			}
		}
	}()
	var all []*seen
	for w := range workspaces {
		all = append(all, s.engage(fmt.Sprint("w", w)))
	}
	<-added
	for _, a := range all {
		a.seesAll(claims)
	}
}

// The cache has one handler for each watch, and not one for each workspace.
func TestEngage_AddsOneHandlerForEachWatch(t *testing.T) {
	s := newScene(t)
	s.watch()
	for w := range 10 {
		s.engage(fmt.Sprint("w", w))
	}
	if got := s.cache.handlers.Load(); got != 2 {
		t.Errorf("two watches of ten workspaces have %d handlers", got)
	}
}
