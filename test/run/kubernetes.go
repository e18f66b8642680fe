package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// onKubernetes is a cluster without kcp, with a namespace for each tenant.
type onKubernetes struct{ *local.Kubernetes }

var tenantNamespaces = []string{"team-a", "team-b"}

func (onKubernetes) announce() string { return "Kubernetes: about 10 seconds" }

// writeKubeconfig writes the kubeconfig of a user with the role cluster-admin. The cluster's own admin is in the
// group system:masters, which the policies exempt: it could delete a pool in use.
func (k onKubernetes) writeKubeconfig(ctx context.Context, file string, admin *rest.Config) error {
	c, err := workspaces.NewClient(admin)
	if err != nil {
		return err
	}
	user, err := k.TakeUser()
	if err != nil {
		return err
	}
	cfg, err := k.As(user, "")
	if err != nil {
		return err
	}
	kubeconfig, err := local.Kubeconfig(cfg)
	if err != nil {
		return err
	}
	may := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "run-" + user.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}},
	}
	if err := c.Create(ctx, may); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	return os.WriteFile(file, kubeconfig, 0o600)
}

// prepare makes the namespaces. The controller makes the cluster ready by itself, and renews its own token.
func (onKubernetes) prepare(ctx context.Context, admin *rest.Config, say func(string)) (local.ControllerOptions, error) {
	opts := local.ControllerOptions{Identity: admin, Flags: []string{"--bootstrap"}}
	c, err := workspaces.NewClient(admin)
	if err != nil {
		return opts, err
	}
	for _, name := range tenantNamespaces {
		say("making the namespace " + name)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := c.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
			return opts, err
		}
	}
	return opts, nil
}

func (onKubernetes) platform(admin *rest.Config) *rest.Config { return admin }

func (onKubernetes) tenants(admin *rest.Config) []tenant {
	all := make([]tenant, 0, len(tenantNamespaces))
	for _, name := range tenantNamespaces {
		all = append(all, tenant{name: name, cfg: admin, namespace: name, listed: client.InNamespace(name)})
	}
	return all
}

func (onKubernetes) hints(kubeconfig string) string {
	return fmt.Sprintf(`To look around and to claim more, paste into a shell:

export KUBECONFIG=%s
kubectl get ipclaims,ipallocations --all-namespaces
kubectl get ipclasses,ippools
kubectl create -o jsonpath='{.status.allocatedCIDR}{"\n"}' -f - <<EOF
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata: {name: db, namespace: team-b}
spec: {className: internal, prefixLength: 26}
EOF
kubectl delete namespace team-a
kubectl get ippools

Ctrl-C stops it, make run-standalone takes it up again, make clean forgets it.
`, kubeconfig)
}

// stage is the ground of a run: a kcp, or a cluster without kcp.
type stage interface {
	server
	// announce says what is being started, and how long that takes.
	announce() string
	// writeKubeconfig writes the kubeconfig of an admin for the user's shells.
	writeKubeconfig(ctx context.Context, file string, admin *rest.Config) error
	// prepare makes everything that the controller needs before it starts, and returns the controller's options.
	prepare(ctx context.Context, admin *rest.Config, say func(step string)) (local.ControllerOptions, error)
	// platform is the access to the classes and pools.
	platform(admin *rest.Config) *rest.Config
	tenants(admin *rest.Config) []tenant
	// hints are commands to try next, which can be pasted into a shell.
	hints(kubeconfig string) string
}

// server is the server of a stage. It is not started when it is made.
type server interface {
	Start(ctx context.Context) error
	Stop() error
	Admin() (*rest.Config, error)
	Log() string
	Ended() <-chan struct{}
}

// tenant claims a block.
type tenant struct {
	name string
	cfg  *rest.Config // reaches its claims
	// namespace is where the claim of the samples is made.
	namespace string
	// listed are the claims that are shown. Default: those of all namespaces.
	listed client.InNamespace
}

// onKCP is a kcp with a platform workspace and a workspace for each tenant.
type onKCP struct{ *local.KCP }

var tenantWorkspaces = []string{"root:team-a", "root:team-b"}

func (onKCP) announce() string { return "kcp: about 25 seconds" }

func (onKCP) prepare(ctx context.Context, admin *rest.Config, say func(string)) (local.ControllerOptions, error) {
	opts := local.ControllerOptions{Workspace: workspaces.DefaultWorkspace}
	if err := workspaces.Bootstrap(ctx, admin, workspaces.Options{Progress: say}); err != nil {
		return opts, err
	}
	for _, workspace := range tenantWorkspaces {
		say("making the tenant " + workspace)
		if _, err := workspaces.EnsureTenant(ctx, admin, workspaces.TenantOptions{Workspace: workspace}); err != nil {
			return opts, err
		}
	}
	var err error
	opts.Identity, err = workspaces.TokenConfig(ctx, workspaces.At(admin, workspaces.DefaultWorkspace), 365*24*time.Hour)
	return opts, err
}

func (onKCP) platform(admin *rest.Config) *rest.Config {
	return workspaces.At(admin, workspaces.DefaultWorkspace)
}

func (onKCP) tenants(admin *rest.Config) []tenant {
	all := make([]tenant, 0, len(tenantWorkspaces))
	for _, workspace := range tenantWorkspaces {
		all = append(all, tenant{name: workspace, cfg: workspaces.At(admin, workspace), namespace: "default"})
	}
	return all
}

func (onKCP) hints(kubeconfig string) string {
	return fmt.Sprintf(`To look around and to claim more, paste into a shell:

export KUBECONFIG=%s
kubectl --context team-a get ipclaims,ipallocations,ipclasses
kubectl --context ipam get ippools
kubectl --context team-b create -f - <<EOF
apiVersion: ipam.miloapis.com/v1alpha1
kind: IPClaim
metadata: {name: db, namespace: default}
spec: {className: internal, prefixLength: 26}
EOF
kubectl --context team-b wait --for=condition=Allocated ipclaim/db
kubectl --context team-b get ipclaims

Ctrl-C stops it, make run takes it up again, make clean forgets it.
`, kubeconfig)
}
