package directory_test

import (
	"slices"
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// endpoint shows the bindings of these tests.
const endpoint = "https://endpoint"

// observer keeps the calls that it gets, in order.
type observer struct {
	words     []string // calls for workspaces that come and go
	named     []directory.Workspace
	contested []string
}

func (s *observer) Arrived(ledger.ClusterName)  { s.words = append(s.words, "arrived") }
func (s *observer) Leaving(ledger.ClusterName)  { s.words = append(s.words, "leaving") }
func (s *observer) Departed(ledger.ClusterName) { s.words = append(s.words, "departed") }
func (s *observer) Named(w directory.Workspace) { s.named = append(s.named, w) }
func (s *observer) Contested(path string, _ []ledger.ClusterName) {
	s.contested = append(s.contested, path)
}

func newDirectory() *directory.Directory {
	return directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
}

// leads fails the test unless a path names this workspace. If want is empty, the path must name none.
func leads(t *testing.T, d *directory.Directory, path string, want ledger.ClusterName) {
	t.Helper()
	if got, ok := d.Find(path); got.Cluster != want || ok != (want != "") {
		t.Errorf("Find(%s) = %v, %t; want %q", path, got, ok, want)
	}
}

// An observer that is set late is told which workspaces have paths, and which show a path that others show, too.
func TestObserve_TellsThePathsThatAreKnown(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Seen(endpoint, testbed.Binding("a", "root:a"))
	d.Seen(endpoint, testbed.Binding("b", "root:b"))
	d.Seen(endpoint, testbed.Binding("c", "root:b"))
	d.Observe(who)
	want := []directory.Workspace{{Cluster: "a", Path: "root:a"}}
	if !slices.Equal(who.named, want) || !slices.Equal(who.contested, []string{"root:b"}) {
		t.Errorf("the observer was told that %v are named, and %v contested; want %v, and root:b", who.named, who.contested, want)
	}
}

func TestDirectory_FollowsThePathOfAWorkspace(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, testbed.Binding("a", ""))
	if got := d.Workspace("a"); got.Path != "" {
		t.Errorf("a workspace without a path is at %q", got.Path)
	}
	d.Seen(endpoint, testbed.Binding("a", "root:a"))
	d.Seen(endpoint, testbed.Binding("a", "root:a"))
	leads(t, d, "root:a", "a")
	if len(who.words) != 1 || len(who.named) != 1 {
		t.Errorf("observer was told %+v", who)
	}
	d.Seen(endpoint, testbed.Binding("a", "root:new"))
	leads(t, d, "root:a", "")
	if got := d.Workspace("a").Path; got != "root:new" {
		t.Errorf("path = %q, want root:new", got)
	}
	d.Gone(testbed.Binding("a", "root:new"))
	leads(t, d, "root:new", "")
}

func TestDirectory_GivesTheFreedPathToTheNextWorkspace(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, testbed.Binding("a", "root:x"))
	d.Seen(endpoint, testbed.Binding("b", "root:x")) // a was deleted, b made in its place
	d.Gone(testbed.Binding("a", "root:x"))
	leads(t, d, "root:x", "b")
	if last := who.named[len(who.named)-1]; last.Cluster != "b" {
		t.Errorf("told last of %v, want b", last)
	}
}

// The owner of a workspace can make it show any path. The workspace does not get a path that another workspace showed
// before.
func TestDirectory_GivesAForgerNoPath(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, testbed.Binding("victim", "root:x"))
	d.Seen(endpoint, testbed.Binding("forger", "root:y"))
	for range 2 { // again and again
		d.Seen(endpoint, testbed.Binding("forger", "root:x"))
		leads(t, d, "root:x", "victim")
		leads(t, d, "root:y", "")
		if got := d.Workspace("forger"); got.Path != "" || !d.Contests("forger") || d.Contests("victim") || !d.Shares("victim") {
			t.Errorf("the forger is known by %q, contested: %t; the victim's path is contested: %t", got.Path, d.Contests("forger"), d.Contests("victim"))
		}
		if got := d.Workspaces(); len(got) != 1 || got[0].Cluster != "victim" {
			t.Errorf("the workspaces with a path are %v, want the victim alone", got)
		}
		d.Seen(endpoint, testbed.Binding("forger", "root:y"))
	}
	if named := slices.DeleteFunc(who.named, func(w directory.Workspace) bool { return w.Cluster == "forger" }); len(named) != 1 {
		t.Errorf("told %d times that the victim has a path, want once: each time its claims and pools are looked at", len(named))
	}
	if !slices.Equal(who.contested, []string{"root:x", "root:x"}) {
		t.Errorf("told of %v, want root:x each time", who.contested)
	}

	d.Seen(endpoint, testbed.Binding("forger", "root:ipam"))
	leads(t, d, "root:ipam", "p")
	if got := d.Workspace("forger"); got.Path != "" || !d.Contests("forger") || d.Contests("victim") {
		t.Errorf("the forger is known by %q", got.Path)
	}
	if got := d.Workspace("p"); got.Path != "root:ipam" {
		t.Errorf("the platform is known by %q", got.Path)
	}
	d.Seen(endpoint, testbed.Binding("forger", "root:x"))
	d.Gone(testbed.Binding("victim", "root:x"))
	leads(t, d, "root:x", "forger")
}

// Two workspaces showed one path when they were first seen, for example after a start. The path names neither, because
// nobody can tell which had it first: a forger may have bound the API before the owner of the path did.
func TestDirectory_GivesNobodyAPathThatTwoWorkspacesShowedAtFirst(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, testbed.Binding("forger", "root:y"))
	d.Seen(endpoint, testbed.Binding("forger", "root:x"))
	d.Seen(endpoint, testbed.Binding("victim", "root:x"))
	leads(t, d, "root:x", "")
	for _, cluster := range []ledger.ClusterName{"victim", "forger"} {
		if got := d.Workspace(cluster); got.Path != "" || !d.Contests(cluster) {
			t.Errorf("%s is known by %q, contested: %t", cluster, got.Path, d.Contests(cluster))
		}
	}
	if d.Contests("p") || d.Contests("unknown") {
		t.Error("a workspace that shows a path of its own, or none, contests one")
	}
	if got := d.Workspaces(); len(got) != 0 {
		t.Errorf("the workspaces with a path are %v", got)
	}
	if !slices.Equal(who.contested, []string{"root:x"}) {
		t.Errorf("told of %v, want root:x", who.contested)
	}
	d.Seen(endpoint, testbed.Binding("forger", "root:y"))
	leads(t, d, "root:x", "victim")
}

func TestDirectory_KnowsThePlatformByTwoNames(t *testing.T) {
	d := newDirectory()
	if got := d.Engaged("p"); got != "" {
		t.Errorf("the manager knows the platform as %q, want empty", got)
	}
	if got := d.Ledger(""); got != "p" {
		t.Errorf("the ledger knows the local cluster as %q, want p", got)
	}
	if d.Engaged("a") != "a" || d.Ledger("a") != "a" {
		t.Error("a tenant has one name")
	}
}
