package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
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

func (onKubernetes) writeKubeconfig(file string, admin *rest.Config) error {
	kubeconfig, err := local.Kubeconfig(admin)
	if err != nil {
		return err
	}
	return os.WriteFile(file, kubeconfig, 0o600)
}

// prepare makes the namespaces. The controller makes the cluster ready itself, and renews its own token.
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
