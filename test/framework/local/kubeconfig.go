package local

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig returns cfg as the content of a kubeconfig file that needs no other
// file, so cfg must identify itself by a token or by nothing.
func Kubeconfig(cfg *rest.Config) ([]byte, error) {
	if cfg.BearerToken == "" && (cfg.CertFile != "" || len(cfg.CertData) > 0 || cfg.Username != "" || cfg.ExecProvider != nil) {
		return nil, errors.New("write kubeconfig: this identity is not a token; use the kubeconfig it came from")
	}
	cfg = rest.CopyConfig(cfg)
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	const name = "ipam"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   cfg.Host,
		TLSServerName:            cfg.ServerName,
		CertificateAuthorityData: cfg.CAData,
		InsecureSkipTLSVerify:    cfg.Insecure,
	}
	kubeconfig.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: cfg.BearerToken}
	kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	return clientcmd.Write(*kubeconfig)
}
