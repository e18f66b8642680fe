package capi

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// definitions are the kinds of Cluster API that the controller reads.
var definitions = []string{
	"cluster.x-k8s.io_clusters.yaml", "ipam.cluster.x-k8s.io_ipaddressclaims.yaml", "ipam.cluster.x-k8s.io_ipaddresses.yaml",
}

// install installs the definitions of Cluster API, of the version of the Go types, and waits until
// they are served.
func (s *scene) install(t *testing.T) {
	t.Helper()
	version := strings.TrimSpace(output(t, ".", "go", "list", "-m", "-f", "{{.Version}}", "sigs.k8s.io/cluster-api/api"))
	var module struct{ Dir string }
	// Outside of this module, go.sum is left alone.
	answer := output(t, t.TempDir(), "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api@"+version)
	must.Do(t, json.Unmarshal([]byte(answer), &module))
	folder := fstest.MapFS{}
	for _, name := range definitions {
		data := must.Get(fs.ReadFile(os.DirFS(filepath.Join(module.Dir, "core", "config", "crd", "bases")), name))(t)
		folder[name] = &fstest.MapFile{Data: data}
	}
	must.Do(t, workspaces.Apply(t.Context(), s.admin, folder))
	framework.Eventually(t, "the kinds of Cluster API", func(ctx context.Context) error {
		return errors.Join(s.List(ctx, &clusterv1.ClusterList{}), s.List(ctx, &capiv1.IPAddressClaimList{}), s.List(ctx, &capiv1.IPAddressList{}))
	})
}

// shown is the folder of the example.
func shown(t *testing.T) fs.FS {
	t.Helper()
	data := must.Get(os.ReadFile("../../config/capi/example.yaml"))(t)
	return fstest.MapFS{"example.yaml": {Data: data}}
}

// output is what a command prints.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Stderr = dir, os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}
