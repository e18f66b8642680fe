package main

import (
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
func (onKCP) writeKubeconfig(file string, admin *rest.Config) error {
	const user = "kcp-admin"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: admin.BearerToken}
	for _, workspace := range append([]string{"root", workspaces.DefaultWorkspace}, tenantWorkspaces...) {
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
