package session

import (
	"cmp"
	"context"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
	"github.com/kcp-ipam/ipam/workspaces"
)

// View has all that the caller can see: the current workspace and, from the platform, the workspaces of all tenants, if
// the user can read the content of the export.
type View struct {
	client.WithWatch
	// Path is the path of the current workspace, or its logical cluster if the path is not known.
	Path string
	// Namespace is the current namespace.
	Namespace string
	// Tenants are clients that read the workspaces of all tenants, one client for each shard.
	Tenants []client.Reader
	// SeesTenants is set if the caller sees the workspaces of all tenants. There may be no tenants.
	SeesTenants bool
	// Paths has the paths of the tenants' workspaces, by logical cluster.
	Paths map[string]string
}

// View finds out what the caller can see. It does not fail if the caller cannot see the tenants.
func (s *Session) View(ctx context.Context) (*View, error) {
	here, err := s.Here()
	if err != nil {
		return nil, err
	}
	r := &View{WithWatch: here, Path: here.Workspace(), Namespace: here.Namespace, Paths: map[string]string{}}
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	if err := here.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, slice); err != nil {
		return r, exit.IgnoreUnseen(err)
	}
	for _, endpoint := range slice.Status.APIExportEndpoints {
		if err := r.enter(ctx, here.Config, endpoint.URL); err != nil {
			return r, exit.IgnoreUnseen(err)
		}
	}
	r.SeesTenants = true
	return r, nil
}

// enter adds the tenants behind an endpoint. It fails if the caller's credential must not be sent there.
func (r *View) enter(ctx context.Context, cfg *rest.Config, url string) error {
	if err := trusts(cfg, url); err != nil {
		return err
	}
	tenants := rest.CopyConfig(cfg)
	tenants.Host = strings.TrimSuffix(url, "/") + "/clusters/*"
	c, err := NewClient(tenants)
	if err != nil {
		return err
	}
	bindings := &apisv1alpha2.APIBindingList{}
	if err := c.List(ctx, bindings); err != nil {
		return err
	}
	for _, binding := range bindings.Items {
		r.Paths[logicalcluster.From(&binding).String()] = binding.Annotations[core.LogicalClusterPathAnnotationKey]
		if export := binding.Spec.Reference.Export; export != nil && !strings.HasPrefix(r.Path, "root") {
			r.Path = export.Path // the kubeconfig names the workspace by its logical cluster
		}
	}
	r.Tenants = append(r.Tenants, c)
	return nil
}

// Workspace returns the path of an object's workspace; empty for the current one.
func (r *View) Workspace(object client.Object) string {
	return r.Paths[logicalcluster.From(object).String()]
}

// Owner returns the path of the workspace of the pool that an object refers to; empty for the current one.
func (r *View) Owner(from client.Object, ref ipamv1alpha1.PoolRef) string {
	switch in := facts.Workspace(ref); in {
	case "":
		return r.Workspace(from)
	case r.Path:
		return ""
	default:
		return in
	}
}

// Unrecorded says where admins of the platform find the holder of addresses that have no IPAllocation. It is empty for
// callers who do not see the tenants.
func (r *View) Unrecorded(prefix string) string {
	if len(r.Tenants) == 0 {
		return ""
	}
	return "addresses without an IPAllocation may be held for a CREATE; " +
		"to see by which workspace, run ipam-controller history " +
		prefix + " beside the ledger"
}

// Class reads a class from the list of classes: kcp answers a GET of a class that it does not publish with an internal
// error.
func Class(ctx context.Context, c client.Reader, name string) (*ipamv1alpha1.IPClass, error) {
	classes := &ipamv1alpha1.IPClassList{}
	if err := c.List(ctx, classes); err != nil {
		return nil, err
	}
	for i := range classes.Items {
		if class := &classes.Items[i]; class.Name == name {
			return class, nil
		}
	}
	return nil, exit.Missing("ipclasses", name)
}

// Pools returns all pools that the caller may read.
func (r *View) Pools(ctx context.Context) ([]ipamv1alpha1.IPPool, error) {
	return everywhere(ctx, r, func(list *ipamv1alpha1.IPPoolList) []ipamv1alpha1.IPPool { return list.Items })
}

// Claims returns all claims that the caller may read.
func (r *View) Claims(ctx context.Context) ([]ipamv1alpha1.IPClaim, error) {
	return everywhere(ctx, r, func(list *ipamv1alpha1.IPClaimList) []ipamv1alpha1.IPClaim { return list.Items })
}

// Allocations returns all allocations that the caller may read.
func (r *View) Allocations(ctx context.Context) ([]ipamv1alpha1.IPAllocation, error) {
	return everywhere(ctx, r, func(list *ipamv1alpha1.IPAllocationList) []ipamv1alpha1.IPAllocation { return list.Items })
}

// everywhere lists the objects of a kind in every workspace that the caller sees. If the caller may not list all
// namespaces of the current workspace, it lists there only the current namespace.
func everywhere[L, T any, P interface {
	*L
	client.ObjectList
}](ctx context.Context, r *View, items func(*L) []T) ([]T, error) {
	here := new(L)
	err := r.List(ctx, P(here))
	if apierrors.IsForbidden(err) {
		err = r.List(ctx, P(here), client.InNamespace(r.Namespace))
	}
	if err != nil {
		return nil, err
	}
	all := items(here)
	for _, c := range r.Tenants {
		there := new(L)
		if err := c.List(ctx, P(there)); err != nil {
			return nil, err
		}
		all = append(all, items(there)...)
	}
	return all, nil
}

// Visible returns the pools that the caller can read, in the given order. Then come, by name, the pools that the caller
// cannot read, but holds blocks of.
func (r *View) Visible(pools []ipamv1alpha1.IPPool, allocations []ipamv1alpha1.IPAllocation) []*space.Pool {
	var found []*space.Pool
	known := map[[2]string]*space.Pool{}
	named := func(workspace, name string) *space.Pool {
		key := [2]string{workspace, name}
		if known[key] == nil {
			known[key] = &space.Pool{Name: name, Workspace: workspace}
			found = append(found, known[key])
		}
		return known[key]
	}
	for i := range pools {
		named(r.Workspace(&pools[i]), pools[i].Name).Object = &pools[i]
	}
	add := func(h space.Holding, from client.Object, ref ipamv1alpha1.PoolRef, cidr string) {
		block, err := netip.ParsePrefix(cidr)
		if err != nil {
			return
		}
		h.Block, h.Since, h.Workspace = block, from.GetCreationTimestamp(), r.Workspace(from)
		h.Holder = space.In(h.Holder, h.Workspace)
		pool := named(r.Owner(from, ref), ref.Name)
		pool.Held = append(pool.Held, h)
	}
	readable := len(found)
	for i := range allocations {
		a := &allocations[i]
		add(space.HoldingOf(a), a, a.Spec.PoolRef, a.Status.AllocatedCIDR)
	}
	for i := range pools {
		p := &pools[i]
		if parent := p.Parent(); parent != nil {
			add(space.Holding{
				Kind: space.Child, Slice: p.Labels[ipamv1alpha1.LabelSlice] != "", Name: p.Name, Holder: "pool " + p.Name,
				Scope: ipamv1alpha1.ScopeColumn(p.Spec.Scope.Only(p.Status.UniqueWithin)),
			}, p, *parent, p.Status.AllocatedCIDR)
		}
	}
	for _, pool := range found {
		slices.SortFunc(pool.Held, func(a, b space.Holding) int {
			return cmp.Or(a.Block.Compare(b.Block), cmp.Compare(a.Holder, b.Holder))
		})
	}
	slices.SortFunc(found[readable:], func(a, b *space.Pool) int {
		return cmp.Or(cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// underExports is the path under which kcp serves the content of APIExports. A workspace under /clusters/ can be a
// mount, which is a server of its owner.
const underExports = "/services/apiexport/"

// trusts refuses an endpoint that may be somebody else's server, because the caller's credential would be sent there.
// The endpoints come from the current workspace, and its owner can write them.
//
// The server of the kubeconfig is trusted. So is any server with a certificate of the CA that the kubeconfig names. If
// the kubeconfig names no CA, no other server is trusted: the CAs of the operating system sign for everybody.
func trusts(cfg *rest.Config, endpoint string) error {
	own, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return err
	}
	wrong := "it is not the server of the kubeconfig, and the kubeconfig names no CA by which to verify another one"
	at, err := url.Parse(endpoint)
	switch {
	case err != nil || at.User != nil || at.RawQuery != "" || at.Fragment != "" ||
		path.Clean(at.Path) != strings.TrimSuffix(at.Path, "/"):
		wrong = "it is not a URL of kcp"
	case !strings.HasPrefix(at.Path, underExports):
		wrong = "its path is not below " + underExports
	case at.Scheme == own.Scheme && portOf(at) == portOf(own) && at.Hostname() == own.Hostname():
		return nil
	case at.Scheme != "https":
		wrong = "it is not https"
	case !cfg.Insecure && (len(cfg.CAData) > 0 || cfg.CAFile != ""):
		return nil
	}
	return exit.Fail(exit.Forbidden,
		"if you trust the owner of this workspace, and the endpoint is one of your kcp, give the kubeconfig its CA: "+
			"kubectl config set-cluster NAME --certificate-authority FILE; else use another workspace",
		"the APIExportEndpointSlice of this workspace leads to %q: %s; your credential was not sent there", endpoint, wrong)
}

// portOf returns the port of a URL, or else the default port of its scheme.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "https" {
		return port
	}
	return "443"
}
