package resolve

import (
	"strings"
	"testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
)

func TestAdmits_FollowsVisibilityAndConsumers(t *testing.T) {
	owner := directory.Workspace{Cluster: "owner", Path: "root:owner"}
	web := directory.Workspace{Cluster: "web", Path: "root:acme:web"}
	acme := directory.Workspace{Cluster: "acme", Path: "root:acme"}
	nameless := directory.Workspace{Cluster: "new"}
	type consumers = []ipamv1alpha1.Consumer

	for _, tt := range []struct {
		name       string
		visibility ipamv1alpha1.Visibility
		consumers  consumers
		who        directory.Workspace
		want       bool
	}{
		{"own workspace, consumer", ipamv1alpha1.VisibilityConsumer, nil, owner, true},
		{"own workspace, shared with nobody", ipamv1alpha1.VisibilityShared, nil, owner, true},
		{"own workspace, platform for others", ipamv1alpha1.VisibilityPlatform, consumers{"root:acme:web"}, owner, true},
		{"consumer admits no other", ipamv1alpha1.VisibilityConsumer, nil, web, false},
		{"consumer admits not even the listed", ipamv1alpha1.VisibilityConsumer, consumers{"root:acme:web"}, web, false},
		{"nothing said is consumer", "", nil, web, false},
		{"platform admits all", ipamv1alpha1.VisibilityPlatform, nil, web, true},
		{"platform admits the nameless", ipamv1alpha1.VisibilityPlatform, nil, nameless, true},
		{"platform narrowed to it", ipamv1alpha1.VisibilityPlatform, consumers{"root:acme:web"}, web, true},
		{"platform narrowed to another", ipamv1alpha1.VisibilityPlatform, consumers{"root:acme:db"}, web, false},
		{"platform narrowed, nameless", ipamv1alpha1.VisibilityPlatform, consumers{"root:*"}, nameless, false},
		{"shared with nobody", ipamv1alpha1.VisibilityShared, nil, web, false},
		{"shared with it", ipamv1alpha1.VisibilityShared, consumers{"root:x", "root:acme:web"}, web, true},
		{"shared with its subtree", ipamv1alpha1.VisibilityShared, consumers{"root:acme:*"}, web, true},
		{"shared far above", ipamv1alpha1.VisibilityShared, consumers{"root:*"}, web, true},
		{"a subtree is not its root", ipamv1alpha1.VisibilityShared, consumers{"root:acme:*"}, acme, false},
		{"a subtree is no prefix of names", ipamv1alpha1.VisibilityShared, consumers{"root:ac:*"}, web, false},
		{"a path is no subtree", ipamv1alpha1.VisibilityShared, consumers{"root:acme"}, web, false},
		{"shared, nameless", ipamv1alpha1.VisibilityShared, consumers{"root:*"}, nameless, false},
		{"shared with its logical cluster", ipamv1alpha1.VisibilityShared, consumers{"web"}, web, true},
		{"shared with the nameless one's", ipamv1alpha1.VisibilityShared, consumers{"new"}, nameless, true},
		{"an ID is no path", ipamv1alpha1.VisibilityShared, consumers{"web"}, directory.Workspace{Cluster: "evil", Path: "web"}, false},
		{"no entry is for the nameless", ipamv1alpha1.VisibilityShared, consumers{"", "*"}, nameless, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := sharing{owner, tt.visibility, tt.consumers}.admits(tt.who)
			if got != tt.want {
				t.Errorf("admits = %t, want %t", got, tt.want)
			}
		})
	}
}

// An entry admits the workspace that it names, or all below it, and nobody else.
func FuzzListed(f *testing.F) {
	for _, row := range [][2]string{
		{"root:acme:web", "root:acme:web"}, {"root:acme:*", "root:acme:web"}, {"root:acme:*", "root:acme"}, {"root:acme*", "root:acme-evil"},
		{"root:acme:*", "root:acmes:web"}, {"*", "root"}, {":*", ":"}, {"", ""}, {"root:acme:*", "root:acme:"}, {"root:**", "root:*"},
		{"id", "id"}, {"other", "other"},
	} {
		f.Add(row[0], row[1])
	}
	f.Fuzz(func(t *testing.T, entry, path string) {
		want := entry == "id" || strings.Contains(entry, ":") && entry == path
		above, subtree := strings.CutSuffix(entry, ":*")
		for i := range path {
			want = want || subtree && path[i] == ':' && path[:i] == above
		}
		who := directory.Workspace{Cluster: "id", Path: path}
		if got := listed([]ipamv1alpha1.Consumer{ipamv1alpha1.Consumer(entry)}, who); got != want {
			t.Errorf("%q admits %q: %t, want %t", entry, path, got, want)
		}
	})
}
