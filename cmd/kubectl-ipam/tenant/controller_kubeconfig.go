package tenant

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/workspaces"
)

// controllerKubeconfig is kubectl ipam controller-kubeconfig.
type controllerKubeconfig struct {
	*session.Session
	platform      string
	file, address string
	duration      time.Duration
}

// shortestToken is the shortest lifetime for which servers grant a token.
const shortestToken = 10 * time.Minute

// NewControllerKubeconfig makes kubectl ipam controller-kubeconfig.
func NewControllerKubeconfig(s *session.Session) *cobra.Command {
	o := &controllerKubeconfig{Session: s, platform: workspaces.DefaultWorkspace, duration: 365 * 24 * time.Hour}
	cmd := &cobra.Command{
		Use:   "controller-kubeconfig [WORKSPACE]",
		Short: "Write the kubeconfig of the controller's service account",
		Long: `Write a kubeconfig of the service account of ipam-controller in the platform workspace, to
stdout or to a file that only you can read. Its token expires after --duration: write
another kubeconfig before, or start the controller with --request-token.

You need a platform that kubectl ipam init has made, and the right to request tokens of that
service account. Without an argument the workspace is ` + workspaces.DefaultWorkspace + `.`,
		Example: `  kubectl ipam controller-kubeconfig root:ipam --file controller.kubeconfig`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.platform = args[0]
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&o.file, "file", "", "File to write, with mode 0600; empty writes to stdout")
	cmd.Flags().Var(field.Duration(&o.duration, shortestToken), "duration",
		"How long the token is valid, unless the server has a limit of its own; at least 10m")
	cmd.Flags().StringVar(&o.address, "address", "",
		"Address of kcp as the controller reaches it, such as https://kcp.example:6443; empty is that of your kubeconfig")
	return cmd
}

func (o *controllerKubeconfig) run(ctx context.Context) error {
	if err := validWorkspace(o.platform); err != nil {
		return err
	}
	kubeconfig, ends, err := o.request(ctx)
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
	o.Say("%s is the kubeconfig of the controller for %s; its token ends at %s",
		o.file, o.platform, ends.UTC().Format(time.RFC3339))
	return nil
}

// request requests a token. It returns a kubeconfig with the token, and the time when the token ends.
func (o *controllerKubeconfig) request(ctx context.Context) (kubeconfig []byte, ends time.Time, _ error) {
	cfg, err := o.Config()
	if err == nil {
		err = checkPlatform(ctx, cfg, o.platform)
	}
	if err != nil {
		return nil, ends, err
	}
	platform := workspaces.At(cfg, o.platform)
	granted, err := workspaces.RequestToken(ctx, platform, o.duration)
	if err != nil {
		return nil, ends, needing(err, "the right to create serviceaccounts/token of "+workspaces.ControllerAccount+
			" in the namespace "+workspaces.ControllerNamespace+" of "+o.platform)
	}
	controller := rest.AnonymousClientConfig(platform)
	controller.BearerToken = granted.Token
	if o.address != "" {
		controller.Host = o.address
		controller = workspaces.At(controller, o.platform)
	}
	kubeconfig, err = kubeconfigOf(controller)
	return kubeconfig, granted.ExpirationTimestamp.Time, err
}

// kubeconfigOf returns a kubeconfig with a token and the address of a server. It needs no other file.
func kubeconfigOf(cfg *rest.Config) ([]byte, error) {
	if err := rest.LoadTLSFiles(cfg); err != nil {
		return nil, fmt.Errorf("read the CA of the server: %w", err)
	}
	const name = "ipam-controller"
	return clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{name: {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
			TLSServerName: cfg.ServerName, InsecureSkipTLSVerify: cfg.Insecure,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: cfg.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
}

// writePrivate writes a file that only its owner can read. It replaces an existing file as a whole, whatever the mode
// of that file.
func writePrivate(name string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".kubeconfig-*") // with mode 0600
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
