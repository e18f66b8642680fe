package tenants

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// echo is a server that answers every request with an object named web, and notes method and path.
type echo struct {
	mu   sync.Mutex
	seen []string
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.seen = append(e.seen, r.Method+" "+r.URL.Path)
	e.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"metadata":{"name":"web"}}`)
}

func newEcho(t *testing.T) (*echo, client.Client) {
	t.Helper()
	e := &echo{}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	writer := must.Get(newWriter(&rest.Config{Host: server.URL + "/services/x"}, testbed.Scheme(t, v1controller1.AddToScheme)))(t)
	return e, writer
}

// Workspaces share a writer, and each writes to itself alone.
func TestWorkspaceClient_WritesToItsWorkspace(t *testing.T) {
	t.Parallel()
	e, writer := newEcho(t)
	nothing := client.RawPatch(types.MergePatchType, []byte("{}"))
	claim := &v1controller1.IPClaim{}
	claim.Namespace, claim.Name = "default", "web"
	one, two := workspaceClient{Client: writer, name: "one"}, workspaceClient{Client: writer, name: "two"}
	for what, err := range map[string]error{
		"create":       one.Create(t.Context(), gen.Claim("web")),
		"patch":        two.Patch(t.Context(), gen.Claim("web"), nothing),
		"patch status": one.Status().Patch(t.Context(), claim, nothing),
		"delete":       two.Delete(t.Context(), gen.Claim("web")),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const claims = "/apis/ipam.miloapis.com/v1alpha1/namespaces/default/ipclaims"
	want := []string{
		"DELETE /services/x/clusters/two" + claims + "/web", "PATCH /services/x/clusters/one" + strings.Replace(claims, "alpha1", "controller1", 1) + "/web/status",
		"PATCH /services/x/clusters/two" + claims + "/web", "POST /services/x/clusters/one" + claims,
	}
	slices.Sort(e.seen)
	if !slices.Equal(e.seen, want) {
		t.Errorf("the server was asked\n%s\nwant\n%s", strings.Join(e.seen, "\n"), strings.Join(want, "\n"))
	}
}

// A request that names no workspace reaches no server.
func TestRouter_RefusesARequestWithoutAWorkspace(t *testing.T) {
	t.Parallel()
	e, writer := newEcho(t)
	one := workspaceClient{Client: writer, name: "one"}
	for verb, err := range map[string]error{
		"Create":                          writer.Create(t.Context(), gen.Claim("web")),
		"DeleteAllOf, which nobody needs": one.DeleteAllOf(t.Context(), &ipamv1alpha1.IPClaim{}, client.InNamespace("default")),
		"Create of a subresource":         one.SubResource("status").Create(t.Context(), gen.Claim("web"), gen.Claim("web")),
	} {
		if err == nil || !strings.Contains(err.Error(), "names no workspace") || len(e.seen) != 0 {
			t.Errorf("%s without a workspace = %v, and the server was asked %v; want a refusal, and nothing", verb, err, e.seen)
		}
	}
}

// An object of a cache lacks managedFields. So it is never written back whole.
func TestWorkspaceClient_RefusesUpdates(t *testing.T) {
	t.Parallel()
	e, writer := newEcho(t)
	c := workspaceClient{Client: writer, name: "one"}
	pool := &ipamv1alpha1.IPPool{}
	must.Be(t, c.Update(t.Context(), pool), errUpdate)
	if err := c.Status().Update(t.Context(), pool); !errors.Is(err, errUpdate) || len(e.seen) != 0 {
		t.Errorf("Status().Update = %v, and the server was asked %v; want %v, and nothing", err, e.seen, errUpdate)
	}
}
