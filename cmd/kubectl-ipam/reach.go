package main

import (
	"context"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	"github.com/kcp-dev/sdk/apis/core"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/workspaces"
)

// reach is how far the caller sees: the current workspace, and from the platform,
// for users who can read the content of the export, the workspaces of all tenants.
type reach struct {
	client.WithWatch
	// path of the current workspace; its logical cluster where the path is not known.
	path string
	// namespace is the current one.
	namespace string
	// tenants read the workspaces of all tenants, one for each shard.
	tenants []client.Reader
	// paths of the tenants' workspaces, by logical cluster.
	paths map[string]string
}

// reach finds out how far the caller sees. A caller that cannot see the tenants gets no error,
// and less to show.
func (s *session) reach(ctx context.Context) (*reach, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	namespace, err := s.namespace()
	if err != nil {
		return nil, err
	}
	here, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	r := &reach{WithWatch: here, path: workspaceOf(cfg), namespace: namespace, paths: map[string]string{}}
	slice := &apisv1alpha1.APIExportEndpointSlice{}
	if err := here.Get(ctx, client.ObjectKey{Name: workspaces.ExportName}, slice); err != nil {
		return r, ignoreUnseen(err)
	}
	for _, endpoint := range slice.Status.APIExportEndpoints {
		if err := r.enter(ctx, cfg, endpoint.URL); err != nil {
			return r, ignoreUnseen(err)
		}
	}
	return r, nil
}

// enter adds the tenants behind an endpoint, if the caller's credential may be sent there.
func (r *reach) enter(ctx context.Context, cfg *rest.Config, url string) error {
	if err := trusts(cfg, url); err != nil {
		return err
	}
	tenants := rest.CopyConfig(cfg)
	tenants.Host = strings.TrimSuffix(url, "/") + "/clusters/*"
	c, err := newClient(tenants)
	if err != nil {
		return err
	}
	bindings := &apisv1alpha1.APIBindingList{}
	if err := c.List(ctx, bindings); err != nil {
		return err
	}
	for _, binding := range bindings.Items {
		r.paths[logicalcluster.From(&binding).String()] = binding.Annotations[core.LogicalClusterPathAnnotationKey]
		if export := binding.Spec.Reference.Export; export != nil && !strings.HasPrefix(r.path, "root") {
			r.path = export.Path // the kubeconfig names the logical cluster
		}
	}
	r.tenants = append(r.tenants, c)
	return nil
}

// ignoreUnseen takes for nothing what the caller may not see, or what is not there.
func ignoreUnseen(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// workspace is the path of an object's workspace; empty for the current one.
func (r *reach) workspace(object client.Object) string {
	return r.paths[logicalcluster.From(object).String()]
}

// owner is the path of the workspace of a pool that an object refers to; empty for the
// current one.
func (r *reach) owner(from client.Object, ref ipamv1alpha1.PoolRef) string {
	switch in := workspaceOfRef(ref); in {
	case "":
		return r.workspace(from)
	case r.path:
		return ""
	default:
		return in
	}
}

// pools are all that the caller may read.
func (r *reach) pools(ctx context.Context) ([]ipamv1alpha1.IPPool, error) {
	return everywhere(ctx, r, func() *ipamv1alpha1.IPPoolList { return &ipamv1alpha1.IPPoolList{} },
		func(list *ipamv1alpha1.IPPoolList) []ipamv1alpha1.IPPool { return list.Items })
}

// claims likewise.
func (r *reach) claims(ctx context.Context) ([]ipamv1alpha1.IPClaim, error) {
	return everywhere(ctx, r, func() *ipamv1alpha1.IPClaimList { return &ipamv1alpha1.IPClaimList{} },
		func(list *ipamv1alpha1.IPClaimList) []ipamv1alpha1.IPClaim { return list.Items })
}

// allocations likewise.
func (r *reach) allocations(ctx context.Context) ([]ipamv1alpha1.IPAllocation, error) {
	return everywhere(ctx, r, func() *ipamv1alpha1.IPAllocationList { return &ipamv1alpha1.IPAllocationList{} },
		func(list *ipamv1alpha1.IPAllocationList) []ipamv1alpha1.IPAllocation { return list.Items })
}

// everywhere lists a kind in every workspace that the caller sees, or in the current
// namespace alone.
func everywhere[L client.ObjectList, T any](ctx context.Context, r *reach, fresh func() L, items func(L) []T) ([]T, error) {
	here := fresh()
	err := r.List(ctx, here)
	if apierrors.IsForbidden(err) {
		err = r.List(ctx, here, client.InNamespace(r.namespace))
	}
	if err != nil {
		return nil, err
	}
	all := items(here)
	for _, c := range r.tenants {
		there := fresh()
		if err := c.List(ctx, there); err != nil {
			return nil, err
		}
		all = append(all, items(there)...)
	}
	return all, nil
}
