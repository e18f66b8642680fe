package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Ground is the kcp on which a program measures. Close it.
type Ground struct {
	// Dir is the folder of all that the program starts.
	Dir string
	KCP *local.KCP
	// Admin is the access of kcp's admin. It becomes invalid when kcp is started again.
	Admin *rest.Config
	Say   Say
}

// NewGround starts a kcp in an empty folder of that name below .cache/.
func NewGround(ctx context.Context, name string, say Say) (*Ground, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return nil, err
	}
	g := &Ground{Dir: filepath.Join(root, ".cache", name), Say: say}
	if err := errors.Join(os.RemoveAll(g.Dir), os.MkdirAll(g.Dir, 0o755)); err != nil {
		return nil, err
	}
	if err := g.start(ctx); err != nil {
		return nil, g.Close(err)
	}
	return g, nil
}

func (g *Ground) start(ctx context.Context) (err error) {
	if g.KCP, err = local.NewKCP(ctx, filepath.Join(g.Dir, "kcp")); err != nil {
		return err
	}
	g.Say("starting kcp: about 25 seconds")
	if err := g.KCP.Start(ctx); err != nil {
		return err
	}
	g.Admin, err = g.KCP.Admin()
	return err
}

// Close stops kcp, and returns the given failures together with those of the stop. After a failure, the data and the
// logs of the run are kept.
func (g *Ground) Close(failures ...error) error {
	if g.KCP != nil {
		failures = append(failures, g.KCP.Stop())
	}
	if err := errors.Join(failures...); err != nil {
		g.Say("data and logs are kept in %s", g.Dir)
		return err
	}
	return os.RemoveAll(g.Dir)
}

// NewUser returns a client of a workspace for a user who is no admin of kcp. The user has the roles there to make
// claims and pools.
func (g *Ground) NewUser(ctx context.Context, workspace string) (client.WithWatch, error) {
	user, err := g.KCP.TakeUser()
	if err != nil {
		return nil, err
	}
	admin, err := workspaces.NewClient(workspaces.At(g.Admin, workspace))
	if err != nil {
		return nil, err
	}
	for _, role := range []string{"system:kcp:workspace:access", "ipam-pool-admin"} {
		binding := &rbacv1.ClusterRoleBinding{
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}},
		}
		binding.Name = "bench:" + role
		if err := admin.Create(ctx, binding); err != nil {
			return nil, fmt.Errorf("make a user of %s: %w", workspace, err)
		}
	}
	cfg, err := g.KCP.As(user, workspace)
	if err != nil {
		return nil, err
	}
	return workspaces.NewClient(cfg)
}

// Metrics returns the metrics of kcp, in the text format of Prometheus.
func (g *Ground) Metrics(ctx context.Context) (string, error) {
	admin, err := g.KCP.Admin() // whose token changes at each start
	if err != nil {
		return "", err
	}
	c, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return "", err
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	return string(text), err
}
