package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
)

// BindingName is the name of the APIBinding that EnsureTenant makes.
const BindingName = "ipam"

// TenantOptions say what EnsureTenant makes.
type TenantOptions struct {
	// Workspace is the path of the tenant's workspace, like root:team-a. Required.
	Workspace string
	// Platform is the path of the platform workspace. Default: root:ipam.
	Platform string
}

// EnsureTenant makes a tenant: its workspace, in it an APIBinding to the platform's
// export that accepts every permission the export asks for, and the roles that its
// people can be given. It returns the workspace's logical cluster when the API is
// served there. cfg reaches any workspace, as a user that can create these.
func EnsureTenant(ctx context.Context, cfg *rest.Config, opts TenantOptions) (logicalcluster.Name, error) {
	if opts.Platform == "" {
		opts.Platform = DefaultWorkspace
	}
	cluster, err := EnsureWorkspace(ctx, cfg, opts.Workspace)
	if err != nil {
		return "", fmt.Errorf("tenant %s: %w", opts.Workspace, err)
	}
	if err := Apply(ctx, At(cfg, opts.Workspace), config.TenantRBAC()); err != nil {
		return "", fmt.Errorf("tenant %s: %w", opts.Workspace, err)
	}
	if err := bind(ctx, cfg, opts); err != nil {
		return "", fmt.Errorf("tenant %s: %w", opts.Workspace, err)
	}
	return cluster, nil
}

// bind makes or updates the APIBinding and waits until its API and the namespace
// "default" are served.
func bind(ctx context.Context, cfg *rest.Config, opts TenantOptions) error {
	c, err := NewClient(At(cfg, opts.Workspace))
	if err != nil {
		return err
	}
	err = await(ctx, "the API to be bound", func(ctx context.Context) error {
		binding, err := advance(ctx, c, opts.Platform)
		if err != nil {
			return err
		}
		return served(ctx, c, binding)
	})
	if err != nil {
		return err
	}
	return await(ctx, "the namespace default", func(ctx context.Context) error {
		namespace := &corev1.Namespace{}
		namespace.Name = metav1.NamespaceDefault
		return client.IgnoreAlreadyExists(c.Create(ctx, namespace))
	})
}

// served returns an error until the workspace serves each kind that is bound. A published kind
// may follow the others after half a minute, when kcp is busy. Claims must be readable; for the
// others a refusal will do.
func served(ctx context.Context, c client.Reader, binding *apisv1alpha2.APIBinding) error {
	lists := map[string]client.ObjectList{
		"ipclaims":      &ipamv1alpha1.IPClaimList{},
		"ippools":       &ipamv1alpha1.IPPoolList{},
		"ipallocations": &ipamv1alpha1.IPAllocationList{},
		classesResource: &ipamv1alpha1.IPClassList{},
	}
	for _, bound := range binding.Status.BoundResources {
		list, ok := lists[bound.Resource]
		if !ok {
			continue
		}
		err := c.List(ctx, list, client.Limit(1))
		if err != nil && (!apierrors.IsForbidden(err) || bound.Resource == "ipclaims") {
			return err
		}
	}
	return nil
}

// advance takes the next step for the binding that is in use, and returns an error that says what the binding still
// lacks. A binding that is being deleted is created again once it is gone.
func advance(ctx context.Context, c client.Client, platform string) (*apisv1alpha2.APIBinding, error) {
	all := &apisv1alpha2.APIBindingList{}
	if err := c.List(ctx, all); err != nil {
		return nil, err
	}
	if known := Bindings(all); len(known) > 0 {
		return complete(ctx, c, &known[0])
	}
	binding := &apisv1alpha2.APIBinding{}
	binding.Name = BindingName
	binding.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: platform, Name: ExportName}
	if err := c.Create(ctx, binding); err != nil {
		return nil, err
	}
	return complete(ctx, c, binding)
}

// complete accepts what the export asks for, and says what the binding still lacks.
func complete(
	ctx context.Context, c client.Client, binding *apisv1alpha2.APIBinding,
) (*apisv1alpha2.APIBinding, error) {
	if accept(binding) {
		if err := c.Update(ctx, binding); err != nil {
			return nil, err
		}
	}
	return binding, Bound(binding)
}

// Bindings returns the APIBindings of a workspace that reference the export, whatever their names. The one in use
// comes first: the one that kcp has bound, else the oldest.
func Bindings(all *apisv1alpha2.APIBindingList) []apisv1alpha2.APIBinding {
	var bindings []apisv1alpha2.APIBinding
	for _, binding := range all.Items {
		if export := binding.Spec.Reference.Export; export != nil && export.Name == ExportName {
			bindings = append(bindings, binding)
		}
	}
	slices.SortStableFunc(bindings, func(a, b apisv1alpha2.APIBinding) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	i := slices.IndexFunc(bindings, func(b apisv1alpha2.APIBinding) bool {
		return b.Status.Phase == apisv1alpha2.APIBindingPhaseBound
	})
	if i > 0 {
		bindings[0], bindings[i] = bindings[i], bindings[0]
	}
	return bindings
}

// accept grants exactly the permissions the export asks for, and reports whether that
// changed the binding. What somebody has rejected stays rejected.
func accept(binding *apisv1alpha2.APIBinding) bool {
	if binding.Status.Phase == "" {
		return false // kcp has not recorded yet what the export asks for
	}
	before := binding.Spec.PermissionClaims
	binding.Spec.PermissionClaims = nil
	for _, asked := range binding.Status.ExportPermissionClaims {
		claim := accepted(asked)
		if i := slices.IndexFunc(before, func(known apisv1alpha2.AcceptablePermissionClaim) bool {
			return known.EqualGRI(asked)
		}); i >= 0 {
			claim.Selector, claim.State = before[i].Selector, before[i].State
		}
		binding.Spec.PermissionClaims = append(binding.Spec.PermissionClaims, claim)
	}
	return !equality.Semantic.DeepEqual(before, binding.Spec.PermissionClaims)
}

func accepted(claim apisv1alpha2.PermissionClaim) apisv1alpha2.AcceptablePermissionClaim {
	return apisv1alpha2.AcceptablePermissionClaim{
		ScopedPermissionClaim: apisv1alpha2.ScopedPermissionClaim{
			PermissionClaim: claim,
			Selector:        apisv1alpha2.PermissionClaimSelector{MatchAll: true},
		},
		State: apisv1alpha2.ClaimAccepted,
	}
}

// ErrConflict is in the error of Bound for a binding that kcp does not bind, because another binding, or a definition
// in the workspace, has its resources.
var ErrConflict = errors.New("its resources are taken")

// ErrNoExport is in the error of Bound for a binding whose export is gone or invalid. kcp goes on serving what it has
// bound before; the controller and its webhook do not reach the workspace.
var ErrNoExport = errors.New("its APIExport is not valid")

// Bound returns what a binding still lacks to be in use; nil if it lacks nothing.
func Bound(binding *apisv1alpha2.APIBinding) error {
	var why error
	switch {
	case !binding.DeletionTimestamp.IsZero():
		why = errors.New("it is being deleted")
	case conditions.IsFalse(binding, apisv1alpha2.APIExportValid):
		why = ErrNoExport
	case conditions.GetReason(binding, apisv1alpha2.BindingUpToDate) == apisv1alpha2.NamingConflictsReason:
		why = ErrConflict
	case binding.Status.Phase != apisv1alpha2.APIBindingPhaseBound:
		why = fmt.Errorf("its phase is %q", binding.Status.Phase)
	case !conditions.IsTrue(binding, apisv1alpha2.BindingUpToDate):
		why = errors.New("it is not up to date")
	default:
		why = applied(binding)
	}
	if why == nil {
		return nil
	}
	return fmt.Errorf("%w%s", why, unmet(binding.Status.Conditions))
}

// applied returns an error unless kcp has applied each permission that a binding accepts.
func applied(binding *apisv1alpha2.APIBinding) error {
	for _, claim := range binding.Spec.PermissionClaims {
		if claim.State != apisv1alpha2.ClaimAccepted {
			continue
		}
		if !slices.ContainsFunc(binding.Status.AppliedPermissionClaims, func(known apisv1alpha2.ScopedPermissionClaim) bool {
			return known.EqualGRI(claim.PermissionClaim)
		}) {
			return fmt.Errorf("the permission for %s is not applied", claim.PermissionClaim)
		}
	}
	return nil
}

// unmet lists the conditions that are not true, to follow a sentence. Several may have one
// message, which is said once.
func unmet(all conditionsv1alpha1.Conditions) string {
	var list strings.Builder
	said := map[string]bool{}
	for _, condition := range all {
		if condition.Status != corev1.ConditionTrue && !said[condition.Message] {
			said[condition.Message] = true
			fmt.Fprintf(&list, "; %s: %s (%s)", condition.Type, condition.Message, condition.Reason)
		}
	}
	return list.String()
}
