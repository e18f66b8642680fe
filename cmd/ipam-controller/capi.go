package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/controllers"
	"github.com/kcp-ipam/ipam/controllers/capi"
	"github.com/kcp-ipam/ipam/workspaces"
)

// clusterAPI is the command capi. It runs the controller for Cluster API with IPClaims in a workspace.
type clusterAPI struct {
	*options
	management string // the kubeconfig of the management cluster
	namespace  string // of the IPClaims
	scope      capi.Scope
}

func newClusterAPICommand() *cobra.Command {
	c := &clusterAPI{options: defaults(), namespace: "default"}
	c.workspace = ""
	// These are the defaults of Kubernetes, as most controllers of a management cluster have them: machines can wait.
	c.election = election{lease: 15 * time.Second, renew: 10 * time.Second, retry: 2 * time.Second}
	cmd := &cobra.Command{
		Use:   "capi",
		Short: "Give machines of Cluster API addresses of a kcp workspace",
		Long: `capi is an IPAM provider of Cluster API whose pools are in a kcp workspace that binds
the API. It runs beside the management cluster, or in it, and claims in the workspace
like any user there: it needs no ledger, and no right on the platform. Each
IPAddressClaim of the management cluster gets an IPClaim in the workspace, and its
address becomes the IPAddress. Several management clusters may share a workspace.

Without kcp, use ipam-controller --standalone --capi instead.`,
		Example: `  # in a pod of the management cluster
  ipam-controller capi --kubeconfig /etc/ipam/workspace.kubeconfig --leader-elect

  # anywhere else
  ipam-controller capi --capi-kubeconfig management.kubeconfig --kubeconfig workspace.kubeconfig`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return err
			}
			return c.run(cmd.Context())
		},
	}
	c.addFlags(cmd.Flags())
	return cmd
}

func (c *clusterAPI) addFlags(f *pflag.FlagSet) {
	f.StringVar(&c.management, "capi-kubeconfig", c.management,
		"kubeconfig of the management cluster; empty: KUBECONFIG, the pod's service account, or ~/.kube/config")
	f.StringVar(&c.kubeconfig, "kubeconfig", c.kubeconfig,
		"kubeconfig of the workspace, of a user that can edit IPClaims there and read IPPools; "+
			"its token file is read again when it is replaced")
	f.StringVar(&c.workspace, "workspace", c.workspace, "path of the workspace; empty: the one that --kubeconfig names")
	f.StringVar(&c.namespace, "claim-namespace", c.namespace, "namespace of all IPClaims in the workspace; it must exist")
	addScopeFlags(f, &c.scope)
	f.BoolVar(&c.election.on, "leader-elect", c.election.on,
		"let one of several replicas work at a time, "+
			"by a lease in the namespace "+workspaces.ControllerNamespace+" of the management cluster")
	c.election.addTimeFlags(f)
	c.addServingFlags(f)
}

// addScopeFlags adds the flags for the scope, which every provider of Cluster API has.
func addScopeFlags(f *pflag.FlagSet, scope *capi.Scope) {
	f.StringVar(&scope.Namespace, "namespace", scope.Namespace,
		"serve only the IPAddressClaims of this namespace; empty: of all")
	f.StringVar(&scope.Filter, "watch-filter", scope.Filter,
		"serve only the IPAddressClaims whose label "+clusterv1.WatchLabel+" has this value; empty: all")
}

func (c *clusterAPI) validate() error {
	return errors.Join(check(
		rule{c.kubeconfig == "", "give --kubeconfig, of the workspace where IPClaims are made"},
		rule{len(validation.IsDNS1123Label(c.namespace)) > 0,
			fmt.Sprintf("--claim-namespace is %q; give it the name of a namespace in the workspace", c.namespace)},
	), c.election.validate(), c.validateMetrics())
}

// leaseName returns the name of the lease for the replicas that serve this scope. Replicas with another scope work at
// the same time.
func (c *clusterAPI) leaseName() string {
	const name = "ipam-controller-capi"
	if c.scope == (capi.Scope{}) {
		return name
	}
	sum := sha256.Sum256([]byte(c.scope.Namespace + "/" + c.scope.Filter)) // a label's value may be no name
	return name + "-" + hex.EncodeToString(sum[:4])
}

// run serves until the context ends.
func (c *clusterAPI) run(ctx context.Context) error {
	ctx = c.logged(ctx)
	scheme, err := controllers.Scheme()
	if err != nil {
		return err
	}
	management, workspace, err := c.reach()
	if err != nil {
		return err
	}
	if err := errors.Join(c.answers("--capi-kubeconfig", management), c.answers("--kubeconfig", workspace)); err != nil {
		return err
	}
	checked := &probes{}
	servers, err := c.servers(ctx, checked)
	if err != nil {
		return err
	}
	o := c.managerOptions(ctx)
	o.LeaderElectionID = c.leaseName()
	mgr, err := controllers.NewClusterAPI(ctx, controllers.ClusterAPIOptions{
		Management: management, Workspace: workspace, Namespace: c.namespace, Scope: c.scope,
		Scheme: scheme, Logger: log.FromContext(ctx), Probes: checked, Manager: o,
	})
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err := mgr.Add(server); err != nil {
			return err
		}
	}
	log.FromContext(ctx).Info("serving machines", "management", management.Host, "workspace", workspace.Host)
	return mgr.Start(ctx)
}

// answers asks a server for its version. So a kubeconfig that leads nowhere is reported at once, and not after the
// caches were waited for.
func (c *clusterAPI) answers(flag string, cfg *rest.Config) error {
	limited := rest.CopyConfig(cfg)
	limited.Timeout = c.timeout
	asked, err := discovery.NewDiscoveryClientForConfig(limited)
	if err == nil {
		_, err = asked.ServerVersion()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// reach returns the configurations for the management cluster and the workspace. The client does not throttle requests,
// as in [findGround].
func (c *clusterAPI) reach() (management, workspace *rest.Config, err error) {
	if management, err = restConfig(c.management); err != nil {
		return nil, nil, fmt.Errorf("--capi-kubeconfig: %w", err)
	}
	if workspace, err = restConfig(c.kubeconfig); err != nil {
		return nil, nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	if c.workspace != "" {
		workspace = workspaces.At(workspace, c.workspace)
	}
	for _, cfg := range []*rest.Config{management, workspace} {
		cfg.QPS, cfg.Burst = -1, -1
	}
	return management, workspace, errors.Join(controllers.ObserveToken("management", management),
		controllers.ObserveToken("workspace", workspace))
}
