package tenants

import (
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

func TestProvider_EngagesWhatIsBound(t *testing.T) {
	s := newScene(t)
	waits := &apisv1alpha2.APIBinding{}
	waits.Annotations = map[string]string{"kcp.io/cluster": "waits"}
	s.put(bindingsPath("one"), "waits", waits)
	s.binds("one", "a")
	s.sees("+a")
	s.binds("one", "b")
	s.sees("+b")
	s.drop(bindingsPath("one"), "a")
	s.sees("-a")
	s.binds("one", "a")
	s.sees("+a")
	s.end()
	s.sees("-a", "-b")
}

// A workspace that the controllers do not engage is tried again until they do. Other workspaces do not wait for it.
func TestProvider_TriesARefusedWorkspaceAgain(t *testing.T) {
	s := newScene(t)
	s.refused["a"] = true
	s.binds("one", "a")
	s.sees("?a", "?a", "?a")
	s.change(func() { s.refused["a"] = false })
	for event := range s.events {
		if event == "+a" {
			break
		}
	}
	s.binds("one", "b")
	s.sees("+b")
}

// If the engagement of a bound workspace ends, for whatever reason, the workspace is engaged again.
func TestProvider_EngagesAgainAfterAnEngagementEnds(t *testing.T) {
	s := newScene(t)
	s.binds("one", "a")
	s.sees("+a")
	for range 3 {
		s.Reengage("a")
		s.sees("-a", "+a")
	}
}

// A list that fails delays the workspaces of its endpoint, and no others.
func TestProvider_DelaysOneEndpointForAListThatFails(t *testing.T) {
	for _, resource := range []string{"ippools", "ipclaims", "ipallocations"} {
		t.Run(resource, func(t *testing.T) {
			s := newScene(t)
			path := "/one/clusters/*/apis/ipam.miloapis.com/v1alpha1/" + resource
			s.breaks(path)
			s.binds("one", "a")
			s.binds("two", "b")
			s.listed("one", "two")
			s.sees("+b")
			if _, err := s.Get(t.Context(), "a"); err == nil {
				t.Errorf("workspace a can be read before its %s are listed", resource)
			}
			s.repairs(path)
			s.sees("+a")
		})
	}
}

// When an endpoint goes, its workspaces are disengaged. When it comes back, they are engaged again.
func TestProvider_EngagesTheWorkspacesOfAnEndpointThatComesBack(t *testing.T) {
	s := newScene(t)
	s.binds("one", "a")
	s.sees("+a")
	for range 3 {
		s.listed()
		s.sees("-a")
		s.listed("one")
		s.sees("+a")
	}
	s.drop(slicesPath, "e")
	s.sees("-a")
	s.listed("one")
	s.sees("+a")
}

// A workspace that two endpoints show is engaged through one of them. When that endpoint does not show it any more, the
// workspace is engaged through the other.
func TestProvider_EngagesThroughTheOtherEndpoint(t *testing.T) {
	s := newScene(t)
	s.binds("one", "a")
	s.sees("+a")
	s.listed("one", "two")
	s.binds("two", "a")
	s.binds("two", "b")
	s.sees("+b")
	s.drop(bindingsPath("one"), "a")
	s.sees("-a", "+a")
	cl := must.Get(s.Get(t.Context(), "a"))(t)
	if url, _ := cl.(*tenant).Endpoint(); url != s.server.URL+"/two" {
		t.Errorf("a is engaged through %s, want the second endpoint", url)
	}
}

// A workspace returns its own objects as the cache keeps them, and none of other workspaces.
func TestTenant_ShowsOnlyItsOwnObjects(t *testing.T) {
	s := newScene(t)
	const claims = "/one/clusters/*/apis/ipam.miloapis.com/v1alpha1/ipclaims"
	for _, workspace := range []string{"a", "b"} {
		claim := gen.Claim("web")
		claim.UID, claim.Annotations = types.UID("of-"+workspace), map[string]string{"kcp.io/cluster": workspace}
		s.put(claims, workspace, claim)
	}
	s.binds("one", "a")
	s.sees("+a")
	a := s.engaged.tenant("a")
	kept, err := a.Kept(&ipamv1alpha1.IPClaim{}, client.ObjectKey{Namespace: "default", Name: "web"})
	if err != nil || kept == nil || kept.GetUID() != "of-a" {
		t.Errorf("Kept(default/web) = %+v, %v; want the claim of a", kept, err)
	}
	for what, kind := range map[string]client.Object{"a claim": &ipamv1alpha1.IPClaim{}, "a record": &ipamv1alpha1.IPAllocation{}, "a pool": &ipamv1alpha1.IPPool{}} {
		if kept, err := a.Kept(kind, client.ObjectKey{Namespace: "default", Name: "other"}); kept != nil || err != nil {
			t.Errorf("Kept of %s that is not there = %+v, %v; want nothing", what, kept, err)
		}
	}
}

// A workspace has no event recorder of its own before its first event, and none after it has gone.
func TestProvider_MakesEventRecordersWhenNeeded(t *testing.T) {
	s := newScene(t)
	s.binds("one", "a")
	s.sees("+a")
	a := s.engaged.tenant("a")
	made, ok := a.events()
	if again, _ := a.events(); !ok || made != again {
		t.Errorf("events = %v, then %v, %t; want one recorder for all events", made, again, ok)
	}
	s.drop(bindingsPath("one"), "a")
	s.sees("-a")
	if _, ok := a.events(); ok {
		t.Error("a workspace that has gone gets a recorder, which nothing would stop")
	}
	a.GetEventRecorder("test").Eventf(&ipamv1alpha1.IPClaim{}, nil, "Normal", "Tested", "Test", "nothing")
}
