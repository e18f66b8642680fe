package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Only the system may write its answers in a tenant's workspace: not the tenant's people, not the workspace's owner,
// not kcp's own admin, and not a service account with the controller's name.
func TestAccess_OnlySystemAnswers(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	claim, pool := gen.Claim("web", gen.OfClass(name), gen.Length(28)), gen.Pool("own")
	framework.Create(t, tenant, claim, pool)
	framework.WaitBound(t, tenant, claim)
	framework.WaitAllocated(t, tenant, pool, ipamv1alpha1.ReasonAllocationSucceeded)
	record := recordOf(t, tenant, claim)

	owner := tenant.Owner(t)
	for who, c := range map[string]client.Client{
		"a user":            tenant,
		"the owner":         owner,
		"kcp's admin":       framework.Admin(t, tenant.Path),
		"a namesake":        namesake(t, tenant, owner),
		"another workspace": platform.Tenant(t).In(t, tenant.Path),
	} {
		for what, err := range map[string]error{
			"patch the claim's status":  c.Status().Patch(t.Context(), written(claim), otherStatus),
			"update the claim's status": c.Status().Update(t.Context(), written(claim)),
			"patch the pool's status":   c.Status().Patch(t.Context(), pool.DeepCopy(), otherStatus),
			"patch the allocation":      c.Patch(t.Context(), record.DeepCopy(), otherStatus),
			"free the allocation":       c.Patch(t.Context(), record.DeepCopy(), merge(`{"spec": {"claimRef": null}}`)),
			"create an allocation":      c.Create(t.Context(), gen.Allocation("mine", name, "10.0.0.0/8")),
		} {
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s may %s: %v; want Forbidden", who, what, err)
			}
		}
	}
	// A user who may delete retained records may not delete a record that a claim holds.
	for who, c := range map[string]client.Client{"a user": tenant, "the owner": owner, "kcp's admin": framework.Admin(t, tenant.Path)} {
		err := c.Delete(t.Context(), record.DeepCopy())
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "held by the IPClaim web: delete the claim") {
			t.Errorf("%s deletes the allocation: %v; want a refusal that says what to do", who, err)
		}
	}
	if now := recordOf(t, tenant, claim); now.ResourceVersion != record.ResourceVersion {
		t.Errorf("the allocation has changed from %+v to %+v", record, now)
	}
}

// On the platform, too, only the system writes its answers: not even kcp's admin may.
func TestAccess_KeepsTheAnswersFromThePlatformsAdmin(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	class := gen.Class(name)
	framework.WaitCondition(t, platform, class, ipamv1alpha1.ConditionReady, ipamv1alpha1.ReasonValidated)

	admin := framework.Admin(t, platform.Path)
	for what, err := range map[string]error{
		"patch the pool's status":  admin.Status().Patch(t.Context(), pool.DeepCopy(), otherStatus),
		"patch the class's status": admin.Status().Patch(t.Context(), class.DeepCopy(), merge(`{"status": {"offeringPools": 7}}`)),
		"create an allocation":     admin.Create(t.Context(), gen.Allocation("mine", name, "10.0.0.0/8")),
	} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "written by the system") {
			t.Errorf("kcp's admin may %s: %v; want a refusal", what, err)
		}
	}
}

// A tenant's people see nothing of other tenants. Of the platform they see only its classes.
func TestAccess_ShowsNothingOfOthers(t *testing.T) {
	t.Parallel()
	platform := framework.SharedPlatform(t)
	name := framework.Name(t)
	offer(t, platform, name, platform.CIDR(t))
	tenant, other := platform.Tenant(t), platform.Tenant(t)
	theirs := gen.Claim("theirs", gen.OfClass(name), gen.Length(28))
	framework.Bind(t, other, theirs)

	for _, list := range []client.ObjectList{
		&ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPAllocationList{}, &ipamv1alpha1.IPPoolList{},
	} {
		if err := tenant.List(t.Context(), list); err != nil || meta.LenList(list) != 0 {
			t.Errorf("%T of the tenant's workspace: %d (%v); want none", list, meta.LenList(list), err)
		}
		for _, elsewhere := range []string{other.Path, platform.Path} {
			if err := tenant.In(t, elsewhere).List(t.Context(), list); !apierrors.IsForbidden(err) {
				t.Errorf("%T of %s: %v; want Forbidden", list, elsewhere, err)
			}
		}
	}
	there := tenant.In(t, other.Path)
	if err := there.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); !apierrors.IsForbidden(err) {
		t.Errorf("read another tenant's claim: %v; want Forbidden", err)
	}
	if err := there.Delete(t.Context(), theirs); !apierrors.IsForbidden(err) {
		t.Errorf("delete another tenant's claim: %v; want Forbidden", err)
	}
}

// otherStatus is a status with a block that was never given.
var otherStatus = merge(`{"status": {"allocatedCIDR": "10.0.0.0/8"}}`)

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// namesake returns the client of a service account in a tenant's workspace that has the controller's name, and every
// right there.
func namesake(t *testing.T, tenant *framework.Tenant, owner client.Client) client.Client {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: workspaces.ControllerNamespace}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.Name, Name: workspaces.ControllerAccount}}
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace:   namespace.Name,
		Name:        staticToken,
		Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name},
	}, Type: corev1.SecretTypeServiceAccountToken}
	rights := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "namesake"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace.Name, Name: account.Name}},
	}
	framework.Create(t, owner, namespace, account, token, rights)
	c := must.Get(workspaces.NewClient(staticConfig(t, tenant)))(t)
	framework.Eventually(t, "the namesake to enter", func(ctx context.Context) error {
		return c.List(ctx, &ipamv1alpha1.IPClaimList{})
	})
	return c
}

// staticToken is the Secret into which kcp writes a token of the namesake that does not expire.
const staticToken = "static-token"

// staticConfig returns the access of the namesake by that token.
func staticConfig(t *testing.T, tenant *framework.Tenant) *rest.Config {
	t.Helper()
	cfg := rest.AnonymousClientConfig(workspaces.At(framework.AdminConfig(t), tenant.Path))
	token := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: workspaces.ControllerNamespace, Name: staticToken}}
	framework.WaitFor(t, framework.Admin(t, tenant.Path), token, func(token *corev1.Secret) error {
		cfg.BearerToken = string(token.Data[corev1.ServiceAccountTokenKey])
		if cfg.BearerToken == "" {
			return errors.New("it holds no token yet")
		}
		return nil
	})
	return cfg
}

// recordOf reads the IPAllocation of a claim.
func recordOf(t *testing.T, c client.Reader, claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPAllocation {
	t.Helper()
	record := &ipamv1alpha1.IPAllocation{}
	key := client.ObjectKey{Namespace: claim.Namespace, Name: claim.Status.BoundAllocationRef.Name}
	must.Do(t, c.Get(t.Context(), key, record))
	return record
}
