package main

import (
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcp-ipam/ipam/workspaces"
)

// kubeconfigName is the file that writeKubeconfig writes, in the folder of the run.
const kubeconfigName = "admin.kubeconfig"

// writeKubeconfig writes a kubeconfig of kcp's admin with a context for each
// workspace, named by the last part of its path.
func writeKubeconfig(file string, admin *rest.Config) error {
	const user = "kcp-admin"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: admin.BearerToken}
	for _, workspace := range append([]string{"root", workspaces.DefaultWorkspace}, tenants...) {
		name := contextOf(workspace)
		kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
			Server:                   workspaces.At(admin, workspace).Host,
			CertificateAuthorityData: admin.CAData,
		}
		kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	}
	kubeconfig.CurrentContext = contextOf(workspaces.DefaultWorkspace)
	return clientcmd.WriteToFile(*kubeconfig, file)
}

func contextOf(workspace string) string {
	return workspace[strings.LastIndex(workspace, ":")+1:]
}

// hints are what to try next, to be pasted into a shell.
func hints(kubeconfig string) string {
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
