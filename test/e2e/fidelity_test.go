package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/sim/simkcp"
)

// The users of the calls.
const (
	byTenant     = "tenant"     // ipam-pool-admin and edit in the workspace
	byOwner      = "owner"      // cluster-admin in the workspace
	byStaff      = "staff"      // the people of the platform
	byAdmin      = "admin"      // the admin of kcp
	byController = "controller" // the controller's service account
	byMasters    = "masters"    // kcp itself
)

// call is a request to both servers. Each side fills in the words in braces: see [side.words].
type call struct {
	name, by, method, path, kind, body string
	// settles says that kcp gives this answer only after a moment: both are asked until the codes agree. until is a
	// code: both are asked until their answers have it.
	settles bool
	until   int
	// differs is why the answers may differ. Empty: they have to agree.
	differs string
}

// A simulation is worth as much as its servers are like the real ones. The kcp in memory gives the same answers to
// the same requests, in the same order, and its watches show the same events. Each intended difference has a reason.
func TestFidelity_TheSimulatedKCPAnswersAsARealOne(t *testing.T) {
	t.Parallel()
	d := newDuel(t)
	d.run(t, founding())
	d.watch(t)
	for _, calls := range [][]call{lifecycle(), patches(), statuses(), listings(), invalid(), policies()} {
		d.run(t, calls)
	}
	d.hook(t)
	d.run(t, hooked())
	d.compareReviews(t)
	d.run(t, leaving())
	d.compareEvents(t)
	if d.calls < 200 {
		t.Errorf("%d requests were compared, want 200", d.calls)
	}
}

// side is one of the two servers.
type side struct {
	name  string
	kcp   string                       // its URL
	as    map[string]http.RoundTripper // by user
	words map[string]string            // the values of the words in braces
	known symbols
}

// duel is the real kcp and the simulated one.
type duel struct {
	real, simulated *side
	world           *simkcp.World
	doors           map[*side]*door
	watches         []*watched
	calls           int
}

func newDuel(t *testing.T) *duel {
	t.Helper()
	platform := framework.NewPlatform(t)
	tenant := platform.Tenant(t)
	endpoint := must.Get(url.Parse(endpointOf(t, platform)))(t)
	truth := &side{name: "kcp", kcp: endpoint.Scheme + "://" + endpoint.Host, as: map[string]http.RoundTripper{}, known: newSymbols(), words: map[string]string{
		"tenant": string(tenant.Cluster), "path": tenant.Path, "platform": string(platform.Cluster), "platformPath": platform.Path, "vw": endpoint.Path,
	}}
	for name, access := range map[string]*rest.Config{
		byTenant: tenant.Config(), byOwner: tenant.OwnerConfig(t), byController: platform.Identity(), byAdmin: framework.AdminConfig(t),
		byStaff: platform.UserConfig(t, "ipam-class-admin", "ipam-shared-pool-admin"), byMasters: framework.SystemConfig(t),
	} {
		truth.as[name] = must.Get(rest.TransportFor(access))(t)
	}

	world := simkcp.New()
	t.Cleanup(world.Close)
	world.Step = time.Millisecond
	world.Workspace(simkcp.Platform, simkcp.PlatformPath, "default")
	world.Workspace("simulated0000000", "root:simulated", "default")
	simulated := &side{name: "simkcp", kcp: "http://kcp", as: map[string]http.RoundTripper{}, known: newSymbols(), words: map[string]string{
		"tenant": "simulated0000000", "path": "root:simulated", "platform": simkcp.Platform, "platformPath": simkcp.PlatformPath,
		"vw": simkcp.Endpoint(simkcp.FirstShard),
	}}
	for name := range truth.as {
		calm := simkcp.NewTransport(world, func(string, string) simkcp.Fate { return simkcp.Fate{} }, func(string) time.Duration { return 0 })
		calm.As = name
		t.Cleanup(calm.Cut)
		simulated.as[name] = calm
	}
	return &duel{real: truth, simulated: simulated, world: world}
}

// run sends calls to both sides, one after the other, and compares the answers.
func (d *duel) run(t *testing.T, calls []call) {
	t.Helper()
	for _, c := range calls {
		d.calls++
		simulated := d.simulated.asked(t, c, c.until)
		if c.settles {
			c.until = simulated.code
		}
		truth := d.real.asked(t, c, c.until)
		d.real.learn(truth)
		d.simulated.learn(simulated)
		diff := cmp.Diff(d.real.normal(truth), d.simulated.normal(simulated))
		switch {
		case diff != "" && c.differs == "":
			t.Errorf("%s: %s %s by %s: -kcp +simulated:\n%s", c.name, c.method, c.path, c.by, diff)
		case diff == "" && c.differs != "":
			t.Errorf("%s: the answers agree, and are said to differ: %s", c.name, c.differs)
		}
	}
}

// asked sends a call until the answer has a code, or until patience is over. With code 0, it sends the call once.
func (s *side) asked(t *testing.T, c call, code int) answer {
	t.Helper()
	got := s.ask(t, c)
	late := time.Now().Add(framework.Patience)
	for code != 0 && got.code != code && time.Now().Before(late) {
		<-time.After(50 * time.Millisecond)
		got = s.ask(t, c)
	}
	return got
}

// answer is the answer of a server.
type answer struct {
	code int
	body any // as JSON is read
}

// ask sends a call.
func (s *side) ask(t *testing.T, c call) answer {
	t.Helper()
	r := s.request(t, c)
	answered := must.Get(s.as[c.by].RoundTrip(r))(t)
	defer func() { _ = answered.Body.Close() }()
	text := must.Get(io.ReadAll(answered.Body))(t)
	got := answer{code: answered.StatusCode}
	if err := json.Unmarshal(text, &got.body); err != nil {
		got.body = strings.TrimSpace(string(text))
	}
	return got
}

// request returns the request of a call.
func (s *side) request(t *testing.T, c call) *http.Request {
	t.Helper()
	if s.as[c.by] == nil {
		t.Fatalf("%s: there is no user %q", c.name, c.by)
	}
	at := s.fill(c.path)
	r := must.Get(http.NewRequestWithContext(t.Context(), c.method, s.kcp+at, strings.NewReader(s.fill(c.body))))(t)
	r.Header.Set("Content-Type", c.kind)
	if c.kind == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("Accept", "application/json")
	return r
}

// fill replaces the words in braces.
func (s *side) fill(text string) string {
	pairs := make([]string, 0, 2*len(s.words))
	for word, value := range s.words {
		pairs = append(pairs, "{"+word+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// watched is a watch of both sides.
type watched struct {
	call
	got map[*side]*events
}

// events are the events of a watch.
type events struct {
	list chan answer
}

// watch begins the watches of both sides.
func (d *duel) watch(t *testing.T) {
	t.Helper()
	for _, c := range streams() {
		w := &watched{call: c, got: map[*side]*events{}}
		for _, s := range []*side{d.real, d.simulated} {
			answered := must.Get(s.as[c.by].RoundTrip(s.request(t, c)))(t)
			if answered.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s answers %s to a watch", c.name, s.name, answered.Status)
			}
			e := &events{list: make(chan answer, 10_000)}
			w.got[s] = e
			go e.follow(answered.Body)
			t.Cleanup(func() { _ = answered.Body.Close() })
		}
		d.watches = append(d.watches, w)
	}
}

// follow reads events until the watch ends.
func (e *events) follow(body io.Reader) {
	defer close(e.list)
	decoder := json.NewDecoder(body)
	for {
		var event map[string]any
		if decoder.Decode(&event) != nil {
			return
		}
		e.list <- answer{body: event}
	}
}

// take returns the events up to the DELETED of the marker, or up to the end of patience.
func (e *events) take() (list []answer) {
	late := time.After(framework.Patience)
	for {
		select {
		case one, open := <-e.list:
			if !open {
				return list
			}
			list = append(list, one)
			if strings.Contains(fmt.Sprint(one.body), marker) && strings.Contains(fmt.Sprint(one.body), "DELETED") {
				return list
			}
		case <-late:
			return list
		}
	}
}

// compareEvents compares the events of the watches of both sides.
func (d *duel) compareEvents(t *testing.T) {
	t.Helper()
	for _, w := range d.watches {
		truth, simulated := w.got[d.real].take(), w.got[d.simulated].take()
		if diff := cmp.Diff(d.real.all(truth), d.simulated.all(simulated)); diff != "" {
			t.Errorf("%s: events of kcp and of the simulated one: -kcp +simulated:\n%s", w.name, diff)
		}
		t.Logf("%s: %d events", w.name, len(truth))
	}
}
