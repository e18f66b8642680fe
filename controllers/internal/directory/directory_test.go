package directory_test

import (
	"slices"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

// endpoint shows the bindings of these tests.
const endpoint = "https://endpoint"

// binding is one that serves its workspace.
func binding(cluster, path string) *apisv1alpha2.APIBinding {
	annotations := map[string]string{"kcp.io/cluster": cluster}
	if path != "" {
		annotations["kcp.io/path"] = path
	}
	b := &apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{UID: types.UID(cluster), Annotations: annotations}}
	conditions.MarkTrue(b, conditionsv1alpha1.ReadyCondition)
	return b
}

// observer keeps the things that it is told, in order.
type observer struct {
	words     []string // of workspaces that come and go
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

func TestDirectory_LearnsAndForgets(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, binding("a", ""))
	if got := d.Workspace("a"); got.Path != "" {
		t.Errorf("a workspace without a path is at %q", got.Path)
	}
	d.Seen(endpoint, binding("a", "root:a"))
	d.Seen(endpoint, binding("a", "root:a"))
	if got, ok := d.Find("root:a"); !ok || got.Cluster != "a" {
		t.Errorf("Find(root:a) = %v, %t", got, ok)
	}
	d.Gone(binding("a", "root:a"))
	if got, ok := d.Find("root:a"); ok {
		t.Errorf("Find(root:a) = %v after its binding went", got)
	}
	if len(who.words) != 1 || len(who.named) != 1 {
		t.Errorf("observer was told %+v", who)
	}
}

func TestDirectory_Renamed(t *testing.T) {
	d := newDirectory()
	d.Seen(endpoint, binding("a", "root:old"))
	d.Seen(endpoint, binding("a", "root:new"))
	if _, ok := d.Find("root:old"); ok {
		t.Error("the old path still leads somewhere")
	}
	if got := d.Workspace("a").Path; got != "root:new" {
		t.Errorf("path = %q, want root:new", got)
	}
}

func TestDirectory_PathTakenOver(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, binding("a", "root:x"))
	d.Seen(endpoint, binding("b", "root:x")) // a was deleted, b made in its place
	d.Gone(binding("a", "root:x"))
	if got, ok := d.Find("root:x"); !ok || got.Cluster != "b" {
		t.Errorf("Find(root:x) = %v, %t, want b", got, ok)
	}
	if last := who.named[len(who.named)-1]; last.Cluster != "b" {
		t.Errorf("told last of %v, want b", last)
	}
}

// A workspace's owner can have it show any path. That makes it nobody else.
func TestDirectory_PathForged(t *testing.T) {
	d, who := newDirectory(), &observer{}
	d.Observe(who)
	d.Seen(endpoint, binding("victim", "root:x"))
	d.Seen(endpoint, binding("forger", "root:y"))
	d.Seen(endpoint, binding("forger", "root:x"))
	if got, ok := d.Find("root:x"); ok {
		t.Errorf("Find(root:x) = %v, of two that show it", got)
	}
	for _, cluster := range []ledger.ClusterName{"victim", "forger"} {
		if got := d.Workspace(cluster); got.Path != "" || !d.Contests(cluster) {
			t.Errorf("%s is known by %q, contested: %t", cluster, got.Path, d.Contests(cluster))
		}
	}
	if d.Contests("p") || d.Contests("unknown") {
		t.Error("who shows a path of his own, or none, contests one")
	}
	if got := d.Workspaces(); len(got) != 0 {
		t.Errorf("the workspaces with a path are %v", got)
	}
	if !slices.Equal(who.contested, []string{"root:x"}) {
		t.Errorf("told of %v, want root:x", who.contested)
	}

	d.Seen(endpoint, binding("forger", "root:ipam"))
	if got, ok := d.Find("root:ipam"); !ok || got.Cluster != "p" {
		t.Errorf("Find(root:ipam) = %v, %t, want the platform", got, ok)
	}
	if got := d.Workspace("forger"); got.Path != "" || !d.Contests("forger") || d.Contests("victim") {
		t.Errorf("the forger is known by %q", got.Path)
	}
	if got := d.Workspace("p"); got.Path != "root:ipam" {
		t.Errorf("the platform is known by %q", got.Path)
	}
	if got, ok := d.Find("root:x"); !ok || got.Cluster != "victim" {
		t.Errorf("Find(root:x) = %v, %t, want the victim again", got, ok)
	}
}

func TestDirectory_PlatformHasTwoNames(t *testing.T) {
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
