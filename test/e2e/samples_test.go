package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
)

// Every sample is taken by kubectl, from people with the usual roles, and becomes Ready. Its
// file says where it goes: platform.yaml to the platform, team-a.yaml to root:team-a.
func TestSamples(t *testing.T) {
	t.Parallel()
	root := must.Get(local.ModuleRoot())(t)
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	s := samples{
		kubectl: framework.Kubectl(t),
		people: map[string]framework.CLI{
			"platform": platform.CLI(t, "ipam-class-admin", "ipam-shared-pool-admin"),
			"team-a":   platform.TenantAt(t, "root:team-a").CLI(t),
			"team-b":   platform.TenantAt(t, "root:team-b").CLI(t),
		},
	}
	all := filepath.Join(root, "config", "samples")
	// These two are for all the others to build on.
	s.ready(t, map[string]string{"platform": filepath.Join(all, "platform"), "team-a": filepath.Join(all, "tenant")})
	topics := must.Get(filepath.Glob(filepath.Join(all, "*")))(t)
	for _, topic := range topics {
		name := filepath.Base(topic)
		if name == "platform" || name == "tenant" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.ready(t, byPlace(t, topic))
		})
	}
}

// byPlace returns the samples of a folder by where they go.
func byPlace(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no samples: %v", folder, err)
	}
	places := map[string]string{}
	for _, file := range files {
		places[strings.TrimSuffix(filepath.Base(file), ".yaml")] = file
	}
	return places
}

// samples are applied as people.
type samples struct {
	kubectl string
	people  map[string]framework.CLI // by place
}

// ready applies what there is for each place, and waits until all of it is Ready.
func (s samples) ready(t *testing.T, files map[string]string) {
	t.Helper()
	for _, verb := range [][]string{{"apply"}, {"wait", "--for=condition=Ready", "--timeout=60s"}} {
		for place, file := range files {
			person, ok := s.people[place]
			if !ok {
				t.Fatalf("%s is for a place that this test has not", file)
			}
			if did := person.RunIn(t, s.kubectl, append(verb, "-f", file)...); did.Code != 0 {
				t.Fatalf("kubectl %s -f %s ended with %d\n%s%s", strings.Join(verb, " "), file, did.Code, did.Out, did.Err)
			}
		}
	}
}
