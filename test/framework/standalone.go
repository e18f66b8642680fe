package framework

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// ServiceAddress is a cluster IP for a Service of the test. It is an address of this machine.
const ServiceAddress = local.ServiceAddress

// tokenLifetime is longer than any test.
const tokenLifetime = 24 * time.Hour

// NewStandalone returns a cluster without kcp as a platform: a real Kubernetes, which is made ready. The client's
// user has the roles of all people there. The controller does not run yet, and gets these flags. A package has one
// such cluster: the tests that need it are subtests of the test that calls NewStandalone.
func NewStandalone(t testing.TB, flags ...string) *Platform {
	t.Helper()
	p := must.Get(current(t).newStandalone(t.Context(), flags))(t)
	endWith(t, p.process)
	return p
}

// newKubernetes starts the cluster.
func (w *world) newKubernetes(ctx context.Context) error {
	cluster, err := local.NewKubernetes(ctx, filepath.Join(w.dir, "kubernetes"))
	if err != nil {
		return err
	}
	w.kubernetes = cluster
	start := time.Now()
	if err := cluster.Start(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "framework: Kubernetes was ready after %s\n", time.Since(start).Round(time.Millisecond))
	return nil
}

func (w *world) newStandalone(ctx context.Context, flags []string) (*Platform, error) {
	if !w.standalone.CompareAndSwap(false, true) {
		return nil, errors.New("another test has the cluster: make this one a subtest of it")
	}
	if err := w.newKubernetes(ctx); err != nil {
		return nil, err
	}
	admin, err := w.kubernetes.Admin()
	if err != nil {
		return nil, err
	}
	if err := workspaces.BootstrapStandalone(ctx, admin, func(string) {}); err != nil {
		return nil, err
	}
	people, err := newClient(ctx, w.kubernetes, controllers.StandalonePath, "ipam-class-admin", "ipam-pool-admin")
	if err != nil {
		return nil, err
	}
	c, err := workspaces.NewClient(admin)
	if err != nil {
		return nil, err
	}
	system := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return nil, err
	}
	identity, err := workspaces.TokenConfig(ctx, admin, tokenLifetime)
	if err != nil {
		return nil, err
	}
	p := &Platform{
		WithWatch: people, Path: controllers.StandalonePath, Cluster: logicalcluster.Name(system.UID), ground: w.kubernetes,
	}
	return p.with(ctx, local.ControllerOptions{
		Binary: w.binary(), Dir: filepath.Join(w.dir, "standalone"), Identity: identity, Flags: flags,
	})
}
