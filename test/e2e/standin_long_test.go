//go:build long

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/fleet"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The stand-in for kcp, on which the controller is measured, answers the controller's requests as kcp does.
func TestLong_StandInAnswersAsKCP(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t) // a new platform, because claims of other tests have other fields
	platform.StartController(t)
	s := scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}
	s.class()
	s.pool(s.cidr)
	for i := range 3 {
		s.holds(fmt.Sprintf("web-%06d", i), gen.Length(32))
	}
	real := newTalk(t, s.platform.Identity(), endpointOf(t, s.platform), string(s.tenant.Cluster))

	crowd := fleet.NewCrowd(1, 3, 1)
	for i := range crowd.Claims() {
		crowd.Holds(i, netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}))
	}
	server := httptest.NewServer(fleet.New("root:ipam", crowd))
	t.Cleanup(server.Close)
	standIn := newTalk(t, &rest.Config{Host: server.URL}, server.URL+"/services/apiexport/shard-0", crowd.Cluster(0))

	want, got := real.exchange(), standIn.exchange()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the stand-in answers\n%s\nkcp answers\n%s", got[i], want[i])
		}
	}
}

// talk is a conversation with one server about a workspace that has three claims.
type talk struct {
	*testing.T
	web               *http.Client
	endpoint, cluster string
	lines             []string
}

func newTalk(t *testing.T, cfg *rest.Config, endpoint, cluster string) *talk {
	t.Helper()
	web := must.Get(rest.HTTPClientFor(cfg))(t)
	return &talk{T: t, web: web, endpoint: endpoint, cluster: cluster}
}

// exchange makes the requests, and returns the shape of each answer.
func (k *talk) exchange() []string {
	const group = "/apis/ipam.miloapis.com/"
	here, one := "/clusters/"+k.cluster, "/namespaces/default/ipclaims/web-000000"
	records := here + group + "v1alpha1/namespaces/default/ipallocations"

	first := k.ask("a page of this workspace", http.MethodGet, here+group+"v1alpha1/ipclaims?limit=2", "")
	next := url.QueryEscape(said(first, "metadata", "continue"))
	k.ask("the last page", http.MethodGet, here+group+"v1alpha1/ipclaims?limit=2&continue="+next, "")
	k.ask("a page of all workspaces", http.MethodGet, "/clusters/*"+group+"v1alpha1/ipclaims?limit=1", "")
	k.ask("a claim", http.MethodGet, here+group+"v1alpha1"+one, "")
	k.ask("a claim in the version of the controller", http.MethodGet, here+group+"v1controller1"+one, "")
	k.ask("no such claim", http.MethodGet, here+group+"v1alpha1/namespaces/default/ipclaims/none", "")
	k.ask("a version that is not served", http.MethodGet, here+group+"v9"+one, "")
	k.ask("the bindings", http.MethodGet, here+"/apis/apis.kcp.io/v1alpha2/apibindings?limit=500", "")

	list := k.ask("records", http.MethodGet, records, "")
	record := list["items"].([]any)[0].(map[string]any)
	record["metadata"] = map[string]any{"name": said(record, "metadata", "name"), "namespace": "default"}
	k.ask("a record that is there", http.MethodPost, records, string(encode(k, record)))
	at := records + "/" + said(record, "metadata", "name")
	k.ask("another UID", http.MethodDelete, at, `{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"00000000-0000-4000-8000-000000000000"}}`)

	claim := k.ask("the claim as it is", http.MethodGet, here+group+"v1alpha1"+one, "")
	version := said(claim, "metadata", "resourceVersion")
	events := k.watch("/clusters/*" + group + "v1alpha1/ipclaims?watch=true&allowWatchBookmarks=true&resourceVersion=" + said(first, "metadata", "resourceVersion"))
	patch := fmt.Sprintf(`{"metadata":{"resourceVersion":%q},"status":{"requested":"/31"}}`, version)
	k.ask("a patch of the status", http.MethodPatch, here+group+"v1controller1"+one+"/status", patch)
	k.ask("the same again", http.MethodPatch, here+group+"v1controller1"+one+"/status", patch)
	k.event("of the patch", events, func(e map[string]any) bool { return said(e, "object", "metadata", "name") == "web-000000" })

	all := k.watch("/clusters/*" + group + "v1alpha1/ipclaims?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
	k.event("of the beginning", all, func(e map[string]any) bool { return said(e, "type") == "ADDED" })
	k.event("of its end", all, func(e map[string]any) bool { return said(e, "type") == "BOOKMARK" })
	return k.lines
}

// ask sends a request, and notes the shape of the answer.
func (k *talk) ask(what, method, path, body string) map[string]any {
	k.Helper()
	response := k.send(method, path, body)
	defer response.Body.Close()
	content := must.Get(io.ReadAll(response.Body))(k)
	answer := map[string]any{}
	_ = json.Unmarshal(content, &answer) // an answer that is not JSON has no shape
	k.lines = append(k.lines, fmt.Sprintf("%s: %d %s", what, response.StatusCode, shape(answer)))
	return answer
}

func (k *talk) send(method, path, body string) *http.Response {
	k.Helper()
	request := must.Get(http.NewRequestWithContext(k.Context(), method, k.endpoint+path, strings.NewReader(body)))(k)
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == http.MethodPatch])
	response, err := k.web.Do(request)
	if err != nil {
		k.Fatalf("%s %s: %v", method, path, err)
	}
	return response
}

func (k *talk) watch(path string) *bufio.Scanner {
	k.Helper()
	response := k.send(http.MethodGet, path, "")
	k.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	return lines
}

// event notes the shape of the next event of a watch for which wanted is true.
func (k *talk) event(what string, events *bufio.Scanner, wanted func(map[string]any) bool) {
	k.Helper()
	for events.Scan() {
		e := map[string]any{}
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			k.Fatalf("event %s: %v in %s", what, err, events.Bytes())
		}
		if said(e, "object", "metadata", "annotations", "kcp.io/cluster") != k.cluster && said(e, "type") != "BOOKMARK" || !wanted(e) {
			continue
		}
		object := e["object"].(map[string]any)
		k.lines = append(k.lines, fmt.Sprintf("event %s: %s %s", what, e["type"], shape(object)))
		return
	}
	k.Fatalf("event %s: the watch ended: %v", what, events.Err())
}

// shape returns the form of an answer without its values: its kind, the names of its metadata's fields, the code and
// reason of an error, and the shape of its first item.
func shape(answer map[string]any) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%v %v", answer["apiVersion"], answer["kind"])
	if metadata, ok := answer["metadata"].(map[string]any); ok {
		fields := slices.DeleteFunc(slices.Sorted(maps.Keys(metadata)), func(f string) bool {
			return f == "remainingItemCount" || f == "labels" || f == "creationTimestamp" || f == "finalizers"
		})
		fmt.Fprintf(&b, " metadata=%v", fields)
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			fmt.Fprintf(&b, " annotations=%v", slices.Sorted(maps.Keys(annotations)))
		}
	}
	if details, ok := answer["details"].(map[string]any); ok {
		fmt.Fprintf(&b, " code=%v reason=%v details=%v/%v/%v", answer["code"], answer["reason"], details["group"], details["kind"], details["name"] != nil)
	}
	if items, ok := answer["items"].([]any); ok && len(items) > 0 {
		fmt.Fprintf(&b, " of %s", shape(items[0].(map[string]any)))
	}
	return b.String()
}

// said returns a field of an object; empty if it is absent.
func said(object map[string]any, path ...string) string {
	for _, field := range path[:len(path)-1] {
		object, _ = object[field].(map[string]any)
	}
	value, _ := object[path[len(path)-1]].(string)
	return value
}

func encode(k *talk, object any) []byte {
	return must.Get(json.Marshal(object))(k)
}
