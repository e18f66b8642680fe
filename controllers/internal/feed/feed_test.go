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

// TestEngage_Changed: it is told when a workspace is engaged, and when it is no more.
func TestEngage_Changed(t *testing.T) {
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

// The last object is what a release goes by, even if only a list says that it is gone.
func TestEngage_ADeletionHandsTheLastObject(t *testing.T) {
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

// TestEngage_AReplacedObject: a list that shows an object in the place of another one of its name shows
// that the other is gone.
func TestEngage_AReplacedObject(t *testing.T) {
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

// What a list leaves out after the watch has broken was deleted meanwhile. The informer
// of kcp that is not patched shows it for ever.
func TestEngage_ADeletionThatNobodyWatched(t *testing.T) {
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
	b.sees("+x") // and so did whoever comes before it
	a.sees()
	again := s.engage("a")
	again.sees("+x")
	a.sees()
}

// Only the provider's clusters tell the endpoint.
func TestEngage_AForeignCluster(t *testing.T) {
	s := newScene(t)
	if err := s.feed.Engage(t.Context(), "a", struct{ cluster.Cluster }{}); err == nil {
		t.Error("Engage = nil for a cluster that tells no endpoint")
	}
}

// A watch that cannot be opened fails the engagement, which leaves nothing behind. The next
// one shows everything.
func TestEngage_Fails(t *testing.T) {
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

// A controller that cannot be shown one workspace when it begins is shown the others, and
// that one is engaged again.
func TestTenants_OneFails(t *testing.T) {
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

// A controller may begin when workspaces are engaged already.
func TestTenants_BegunLate(t *testing.T) {
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

// However an object's event and the engagement of its workspace fall, the object is shown.
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

// What it costs is one handler for each watch, not for each workspace.
func TestEngage_OneHandler(t *testing.T) {
	s := newScene(t)
	s.watch()
	for w := range 10 {
		s.engage(fmt.Sprint("w", w))
	}
	if got := s.cache.handlers.Load(); got != 2 {
		t.Errorf("two watches of ten workspaces have %d handlers", got)
	}
}
