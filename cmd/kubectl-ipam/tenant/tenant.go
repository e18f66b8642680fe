// Package tenant has the commands that set up platforms and tenants: kubectl ipam init, tenant, grant and
// controller-kubeconfig.
package tenant

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// New makes kubectl ipam tenant.
func New(s *session.Session) *cobra.Command {
	return session.Group(&cobra.Command{
		Use:     "tenant",
		Aliases: []string{"tenants"},
		Short:   "Make workspaces tenants of the platform, and list them",
		Long: `A tenant is a workspace that is bound to the API of a platform. Its users claim from the
pools of the platform, and from pools of their own.`,
		Example: `  kubectl ipam tenant bind root:team-c
  kubectl ipam tenant list`,
	}, newBind(s), newList(s))
}

func newList(s *session.Session) *cobra.Command {
	out := &output.Printer{}
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List the tenants, and how many claims and pools each has",
		Long: `List the workspaces that are bound to the platform in the current workspace: how many claims
each has, how many of those wait for a block, and how many pools. It is for users with the
role ipam-tenant-viewer there.

On a cluster without kcp the tenants are the namespaces that have claims.`,
		Example: `  # in the workspace of the platform
  kubectl ipam tenant list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := s.View(cmd.Context())
			if err != nil {
				return err
			}
			return list(cmd.Context(), s, r, out)
		},
	}
	out.AddFlags(cmd)
	return cmd
}

// tenant is a bound workspace or, without kcp, a namespace, as -o prints it.
type tenant struct {
	Tenant string `json:"tenant"`
	// Cluster is the logical cluster of a workspace.
	Cluster string `json:"cluster,omitempty"`
	Claims  int    `json:"claims"`
	Waiting int    `json:"waiting"`
	// Pools counts the pools of a workspace. Without kcp, pools have no namespace, and are not counted.
	Pools int `json:"pools,omitempty"`
}

func list(ctx context.Context, s *session.Session, r *session.View, out *output.Printer) error {
	if r.Path != "" && !r.SeesTenants {
		return exit.Fail(exit.NotFound,
			"they are listed in the workspace of the platform, for users with the role ipam-tenant-viewer; "+
				"--context names another workspace",
			"you see no tenants from %s", r.Path)
	}
	tenants, err := tenantsOf(ctx, r)
	if err != nil {
		return err
	}
	if len(tenants) == 0 && !out.Given() {
		makes := "kubectl ipam tenant bind WORKSPACE makes one"
		if r.Path == "" {
			makes = "the first claim in a namespace makes it one"
		}
		s.Say("there are no tenants; %s", makes)
		return nil
	}
	t := output.NewTable("TENANT", "CLAIMS", "WAITING", "POOLS")
	for _, one := range tenants {
		pools := fmt.Sprint(one.Pools)
		if one.Cluster == "" {
			pools = ""
		}
		t.Rows = append(t.Rows, output.Row(nil, one.Tenant, fmt.Sprint(one.Claims), fmt.Sprint(one.Waiting), pools))
	}
	return out.PrintReport(s.Out, map[string]any{"tenants": tenants}, t)
}

// tenantsOf counts the claims and pools of each tenant.
func tenantsOf(ctx context.Context, r *session.View) ([]tenant, error) {
	claims, err := r.Claims(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]*tenant{}
	of := func(name string) *tenant {
		if found[name] == nil {
			found[name] = &tenant{Tenant: name}
		}
		return found[name]
	}
	for cluster, path := range r.Paths {
		of(cmp.Or(path, cluster)).Cluster = cluster
	}
	for i := range claims {
		in := r.Workspace(&claims[i])
		if r.Path != "" && in == "" {
			continue // an object of the platform itself
		}
		one := of(cmp.Or(in, claims[i].Namespace))
		one.Claims++
		if claims[i].Status.AllocatedCIDR == "" {
			one.Waiting++
		}
	}
	pools, err := r.Pools(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if in := r.Workspace(&pools[i]); in != "" {
			of(in).Pools++
		}
	}
	tenants := make([]tenant, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		tenants = append(tenants, *found[name])
	}
	return tenants, nil
}
