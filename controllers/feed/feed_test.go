package feed

import (
	"fmt"
	"testing"

	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
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
	a.sees("-x")
	if a.last.GetLabels()["seen"] != "last" {
		t.Errorf("the deletion handed %v", a.last)
	}
	b.sees()
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
	for w.next() != "-goes" { // what is still there is shown again, or not
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

// An endpoint that goes, with its last tenant, comes back with another cache.
func TestEngage_AtAnEndpointThatCameBack(t *testing.T) {
	s := newScene(t)
	a := s.engage("a")
	s.source.Add(claim("a", "x"))
	a.sees("+x")
	a.leave()
	s.reopen()
	s.source.Add(claim("a", "y"))
	again := s.engage("a")
	again.sees("+y")
	a.sees()
}

func TestEngage_AtAnUnknownEndpoint(t *testing.T) {
	s := newScene(t)
	if err := s.feed.Engage(t.Context(), "a", s.cluster("a", &rest.Config{Host: "https://other"}, nil)); err == nil {
		t.Error("a workspace is engaged whose cache nobody knows")
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
