package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/workspaces"
)

// controllerKubeconfig is kubectl ipam controller-kubeconfig.
type controllerKubeconfig struct {
	*session
	platform      string
	file, address string
}

func newControllerKubeconfig(s *session) *cobra.Command {
	o := &controllerKubeconfig{session: s, platform: workspaces.DefaultWorkspace}
	cmd := &cobra.Command{
		Use:   "controller-kubeconfig [WORKSPACE]",
		Short: "Write the kubeconfig of the controller's service account",
		Long: `Write a kubeconfig of the service account of ipam-controller in the platform workspace, to
stdout or to a file that you alone can read. It needs a platform that init has made, and
the right to read secrets there. Without an argument the workspace is ` + workspaces.DefaultWorkspace + `.`,
		Example: `  kubectl ipam controller-kubeconfig root:ipam --file controller.kubeconfig

  # for pods that reach kcp at another address than you
  kubectl ipam controller-kubeconfig --address https://kcp.kcp-system.svc:6443`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.platform = args[0]
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.file, "file", "", "File to write, with mode 0600; empty writes to stdout")
	cmd.Flags().StringVar(&o.address, "address", "", "Address of kcp as the controller reaches it, such as https://kcp.example:6443; empty is that of your kubeconfig")
	return cmd
}

func (o *controllerKubeconfig) run(ctx context.Context) error {
	if err := validWorkspace(o.platform); err != nil {
		return err
	}
	cfg, err := o.config()
	if err != nil {
		return err
	}
	if err := checkPlatform(ctx, cfg, o.platform); err != nil {
		return err
	}
	controller, err := o.controller(ctx, cfg)
	if err != nil {
		return needing(err, "the right to read secrets in the namespace "+workspaces.ControllerNamespace+" of "+o.platform)
	}
	if o.address != "" {
		controller.Host = o.address
		controller = workspaces.At(controller, o.platform)
	}
	kubeconfig, err := kubeconfigOf(controller)
	if err != nil {
		return err
	}
	if o.file == "" {
		_, err := o.Out.Write(kubeconfig)
		return err
	}
	if err := writePrivate(o.file, kubeconfig); err != nil {
		return err
	}
	o.say("%s is the kubeconfig of the controller for %s", o.file, o.platform)
	return nil
}

// controller is the access of the controller. It refuses callers who cannot read its secret at once:
// otherwise the secret is waited for.
func (o *controllerKubeconfig) controller(ctx context.Context, cfg *rest.Config) (*rest.Config, error) {
	c, err := workspaces.NewClient(workspaces.At(cfg, o.platform))
	if err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: workspaces.ControllerNamespace, Name: workspaces.ControllerTokenSecret}
	if err := c.Get(ctx, key, &corev1.Secret{}); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return workspaces.ControllerConfig(ctx, cfg, o.platform)
}

// kubeconfigOf is a token and the way to a server as a kubeconfig, which needs no other file.
func kubeconfigOf(cfg *rest.Config) ([]byte, error) {
	ca := cfg.CAData
	if len(ca) == 0 && cfg.CAFile != "" {
		var err error
		if ca, err = os.ReadFile(cfg.CAFile); err != nil {
			return nil, fmt.Errorf("read the CA of the server: %w", err)
		}
	}
	const name = "ipam-controller"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: cfg.Host, CertificateAuthorityData: ca,
			TLSServerName: cfg.ServerName, InsecureSkipTLSVerify: cfg.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// writePrivate writes a file that its owner alone can read. One that is there is replaced as a
// whole, whatever its mode is.
func writePrivate(name string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".kubeconfig-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
