package framework

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"testing/fstest"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Management is a real Kubernetes beside kcp, in which an ipam-controller capi has an identity. Its methods are for
// one test.
type Management struct {
	cluster    *local.Kubernetes
	controller *local.ClusterAPI
}

// NewManagement returns a management cluster without the kinds of Cluster API. Its controller gets these flags, and
// does not run yet. workspace is the controller's access to the workspace.
func NewManagement(t testing.TB, workspace *rest.Config, flags ...string) *Management {
	t.Helper()
	return newManagement(t, workspace, "", flags...)
}

// Clone returns a management cluster whose objects and identity are those of a snapshot of m.
func (m *Management) Clone(t testing.TB, workspace *rest.Config, snapshot string) *Management {
	t.Helper()
	return newManagement(t, workspace, snapshot)
}

func newManagement(t testing.TB, workspace *rest.Config, snapshot string, flags ...string) *Management {
	t.Helper()
	w := current(t)
	dir := filepath.Join(w.dir, fmt.Sprintf("management-%d", w.serial.Add(1)))
	cluster := must.Get(local.NewKubernetes(t.Context(), filepath.Join(dir, "kubernetes")))(t)
	m := &Management{cluster: cluster}
	must.Ends(t, cluster.Stop)
	if snapshot != "" {
		must.Do(t, cluster.Restore(snapshot, 0))
	}
	m.StartCluster(t)
	account := fstest.MapFS{"account.yaml": {Data: config.StandaloneAccount()}}
	for _, folder := range []fs.FS{account, config.ClusterAPIWorkspaceRBAC()} {
		must.Do(t, workspaces.Apply(t.Context(), m.AdminConfig(t), folder))
	}
	identity := must.Get(workspaces.TokenConfig(t.Context(), m.AdminConfig(t), tokenLifetime))(t)
	m.controller = must.Get(local.NewClusterAPI(t.Context(), local.ClusterAPIOptions{
		Binary: w.binary(), Dir: dir, Management: identity, Workspace: workspace, Flags: flags,
	}))(t)
	endWith(t, m.controller)
	return m
}

// AdminConfig returns the access of an admin of the cluster.
func (m *Management) AdminConfig(t testing.TB) *rest.Config {
	t.Helper()
	return must.Get(m.cluster.Admin())(t)
}

// CLI returns the command line of an admin of the cluster.
func (m *Management) CLI(t testing.TB) CLI {
	t.Helper()
	return newCLI(t, m.AdminConfig(t))
}

// StartController starts the controller and returns when it is ready.
func (m *Management) StartController(t testing.TB) {
	t.Helper()
	must.Do(t, errors.Join(current(t).build(), m.controller.Start(t.Context())))
}

// RestartController stops the controller and starts it with these flags instead of its former flags.
func (m *Management) RestartController(t testing.TB, flags ...string) {
	t.Helper()
	must.Do(t, m.controller.Stop())
	m.controller.SetFlags(flags)
	m.StartController(t)
}

// FailController starts the controller, which has to end with an error, and returns its output.
func (m *Management) FailController(t testing.TB) string {
	t.Helper()
	must.Do(t, current(t).build())
	return must.Get(m.controller.Fail(t.Context()))(t)
}

// KillController ends the controller with SIGKILL.
func (m *Management) KillController(t testing.TB) {
	t.Helper()
	must.Do(t, m.controller.Kill())
}

// StopCluster ends the API server and all else of the cluster, until StartCluster.
func (m *Management) StopCluster(t testing.TB) {
	t.Helper()
	must.Do(t, m.cluster.Stop())
}

// StartCluster starts the cluster over its former data, and returns when it is ready.
func (m *Management) StartCluster(t testing.TB) {
	t.Helper()
	must.Do(t, m.cluster.Start(t.Context()))
}

// Save stores a snapshot of the cluster, and returns the file.
func (m *Management) Save(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "snapshot")
	must.Do(t, m.cluster.Save(t.Context(), file))
	return file
}

// RestoreCluster replaces the cluster's objects by a snapshot, with a revision that is raised by raise, and returns
// when the cluster is ready.
func (m *Management) RestoreCluster(t testing.TB, snapshot string, raise uint64) {
	t.Helper()
	m.StopCluster(t)
	must.Do(t, m.cluster.Restore(snapshot, raise))
	m.StartCluster(t)
}
