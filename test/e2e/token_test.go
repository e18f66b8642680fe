package e2e

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// tokens is a source of tokens, which a test can make fail.
type tokens struct {
	admin *rest.Config
	asked atomic.Int64
	fails atomic.Bool
}

func (k *tokens) reach() (*rest.Config, error) {
	k.asked.Add(1)
	if k.fails.Load() {
		return nil, errors.New("the kubeconfig is away")
	}
	return k.admin, nil
}

// On kcp, a service account gets tokens in its own workspace: for a controller that may bootstrap, and for a user
// whose only right is to request the controller's tokens.
func TestToken(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	renewsToken(t, platform)
	user := platform.UserConfig(t)
	c := must.Get(workspaces.NewClient(user))(t)
	self := &authenticationv1.SelfSubjectReview{}
	framework.Create(t, c, self)
	framework.Create(t, platform.Admin(t), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: workspaces.ControllerNamespace, Name: "requester"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ipam-controller-token"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: self.Status.UserInfo.Username}},
	})
	requesting := platform.Requesting(t, user)
	requesting.StartController(t)
	offer(t, platform, "web", platform.CIDR(t), gen.DefaultLength(28))
	tenant := platform.Tenant(t)
	binds := func(name string) {
		t.Helper()
		claim := gen.Claim(name, gen.OfClass("web"))
		framework.Bind(t, tenant, claim)
	}
	binds("by-request")
	if err := c.List(t.Context(), &ipamv1alpha1.IPPoolList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the user of the kubeconfig lists pools: %v; want Forbidden", err)
	}

	requesting.StopController(t)
	platform.Bootstrapping(t).StartController(t)
	binds("by-bootstrap")
}

// standaloneToken is TestToken without kcp. The controller that runs afterwards renews its tokens.
func standaloneToken(t *testing.T, cluster *framework.Platform) {
	renewsToken(t, cluster)
	name, cidr := framework.Name(t), cluster.CIDR(t)
	cluster = cluster.Bootstrapping(t)
	cluster.StartController(t)
	offer(t, cluster, name, cidr, gen.DefaultLength(28))
	claim := gen.Claim(name, gen.OfClass(name))
	framework.Bind(t, cluster, claim)
}

// renewsToken fails the test unless the controller's access is renewed after four fifths of a token's life, and the
// old token is used to its end while no new one can be had.
func renewsToken(t *testing.T, platform *framework.Platform) {
	t.Helper()
	source, now := &tokens{admin: platform.AdminConfig(t)}, clocktesting.NewFakePassiveClock(time.Now())
	cfg := must.Get(workspaces.RenewedConfig(t.Context(), workspaces.Renewal{Reach: source.reach, Lifetime: 10 * time.Minute, Clock: now}))(t)
	c := must.Get(workspaces.NewClient(cfg))(t)
	credential := func() string {
		t.Helper()
		review := &authenticationv1.SelfSubjectReview{}
		framework.Create(t, c, review)
		want := "system:serviceaccount:" + workspaces.ControllerNamespace + ":" + workspaces.ControllerAccount
		if review.Status.UserInfo.Username != want {
			t.Errorf("the server knows the controller as %s; want %s", review.Status.UserInfo.Username, want)
		}
		return review.Status.UserInfo.Extra["authentication.kubernetes.io/credential-id"][0]
	}
	first := credential()
	asked := source.asked.Load()
	now.SetTime(now.Now().Add(7 * time.Minute))
	if again := credential(); again != first || source.asked.Load() != asked {
		t.Errorf("after 7 of 10 minutes the token is %s, and %d were asked for; want %s still", again, source.asked.Load()-asked, first)
	}
	source.fails.Store(true)
	now.SetTime(now.Now().Add(2 * time.Minute))
	if again := credential(); again != first || source.asked.Load() == asked {
		t.Errorf("while none is granted the token is %s, and %d were asked for; want %s, and to ask", again, source.asked.Load()-asked, first)
	}
	now.SetTime(now.Now().Add(2 * time.Minute))
	if err := c.Create(t.Context(), &authenticationv1.SelfSubjectReview{}); err == nil {
		t.Error("a request after the end of the token succeeds while none is granted; want why there is none")
	}
	source.fails.Store(false)
	if second := credential(); second == first {
		t.Errorf("the token is %s still, after its end", second)
	}
}
