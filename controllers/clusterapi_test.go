package controllers

import (
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// If the management cluster does not answer at the start, the error names it. For the workspace, test/capi shows this
// with a real server.
func TestNewClusterAPI_NamesAManagementClusterThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	scheme := must.Get(Scheme())(t)
	away := httptest.NewServer(nil)
	away.Close()
	_, err := NewClusterAPI(t.Context(), ClusterAPIOptions{
		Management: &rest.Config{Host: away.URL}, Workspace: &rest.Config{Host: away.URL}, Namespace: "default", Scheme: scheme,
	})
	if err == nil || !strings.Contains(err.Error(), "management cluster "+away.URL) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("NewClusterAPI without its management cluster = %v; want an error that names %s", err, away.URL)
	}
}
