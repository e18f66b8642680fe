package controllers

import (
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/must"
)

// A management cluster that does not answer at the start is named by the error. The workspace is in
// test/capi: its server is a real one there.
func TestNewClusterAPI_WithoutItsManagementCluster(t *testing.T) {
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
