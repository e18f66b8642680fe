package patch

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
)

// patchStatus patches the status subresource of obj. On success obj holds what the server
// answered.
func patchStatus(ctx context.Context, c client.StatusWriter, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	claim, ok := obj.(*ipamv1alpha1.IPClaim)
	if !ok {
		return c.Patch(ctx, obj, patch, opts...)
	}
	answer := &v1controller1.IPClaim{}
	answer.Namespace, answer.Name = claim.Namespace, claim.Name
	err := c.Patch(ctx, answer, patch, opts...)
	if unserved(err) {
		// Schemas older than this version have the subresource in v1alpha1. kcp serves them
		// until it has moved the workspace, and after a downgrade.
		return c.Patch(ctx, claim, patch, opts...)
	}
	if err != nil {
		return err
	}
	answer.TypeMeta = claim.TypeMeta
	*claim = answer.IPClaim
	return nil
}

// unserved reports whether a version may be one that the server does not serve. The object
// may be gone as well: kcp answers both with the same 404.
func unserved(err error) bool { return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) }
