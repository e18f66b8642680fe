package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/controllers/verify"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// An export that was lost is made again. Without the secret of its identity it is another, which shows no claim that was
// there: no replica is ready then, and no block is freed. With it all goes on.
func TestExport_MadeAnewFromItsIdentity(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	claim := gen.Claim("before", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitBound(t, tenant, claim)

	admin := framework.Admin(t, platform.Path)
	identity := &corev1.Secret{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "kcp-system", Name: workspaces.ExportName}, identity); err != nil {
		t.Fatalf("Get: %v", err)
	}
	binding := &apisv1alpha2.APIBinding{}
	if err := framework.Admin(t, tenant.Path).Get(t.Context(), client.ObjectKey{Name: workspaces.BindingName}, binding); err != nil {
		t.Fatalf("Get: %v", err)
	}
	bound := binding.Status.BoundResources[0].Schema.IdentityHash

	loseExport(t, admin)
	if other := bootstrapped(t, platform, admin); other == bound {
		t.Errorf("without its secret the export has the identity %s again", other)
	}
	framework.Eventually(t, "the controller to see the other identity", func(ctx context.Context) error {
		if err := platform.Probe(ctx, "/readyz/endpoints"); err == nil || !strings.Contains(err.Error(), "--accept-identity") {
			return fmt.Errorf("its probe answers: %w", err)
		}
		return nil
	})
	finds(t, platform, verify.ExportReplaced, workspaces.ExportName)
	platform.StopController(t)
	loseExport(t, admin)
	identity.ObjectMeta = metav1.ObjectMeta{Namespace: identity.Namespace, Name: identity.Name}
	framework.Create(t, admin, identity)
	if same := bootstrapped(t, platform, admin); same != bound {
		t.Fatalf("with its secret the export has the identity %s, want %s", same, bound)
	}

	platform.StartController(t)
	after := gen.Claim("after", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, after)
	framework.WaitBound(t, tenant, claim, after)
	waitHeld(t, platform, pool, size(blockOf(t, claim), blockOf(t, after)))
}

// kcp goes on serving what it has bound when the export is deleted, and no tenant is served by the controller any more.
// Each tool says so, and all goes on when the export is there again.
func TestExport_Deleted(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	name := framework.Name(t)
	pool := offer(t, platform, name, platform.CIDR(t))
	tenant := platform.Tenant(t)
	claim := gen.Claim("before", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, claim)
	framework.WaitBound(t, tenant, claim)

	admin := framework.Admin(t, platform.Path)
	export := &apisv1alpha2.APIExport{}
	export.Name = workspaces.ExportName
	framework.Delete(t, admin, export)
	framework.Eventually(t, "the controller not to be ready", func(ctx context.Context) error {
		if platform.Probe(ctx, "/readyz") == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	theirs, ours := cli{framework.AdminCLI(t, tenant.Path), t}, cli{framework.AdminCLI(t, platform.Path), t}
	framework.Eventually(t, "the binding to lack its export", func(context.Context) error {
		if checked := theirs.run("check"); !strings.Contains(checked.Out, "APIExportNotFound") {
			return errors.New(checked.Out)
		}
		return nil
	})
	shows(t, theirs.run("check").ends(8).Err, "the first is binding", "kubectl ipam init")
	shows(t, theirs.run("verify").ends(1).Out, "APIExportNotFound")
	shows(t, ours.run("check").ends(8).Err, "the first is export", "there is no APIExport")
	shows(t, ours.run("verify").ends(1).Out, "there is no APIExport")

	bootstrapped(t, platform, admin)
	framework.Eventually(t, "the controller to be ready", func(ctx context.Context) error { return platform.Probe(ctx, "/readyz") })
	after := gen.Claim("after", gen.OfClass(name), gen.Length(28))
	framework.Create(t, tenant, after)
	framework.WaitBound(t, tenant, claim, after)
	waitHeld(t, platform, pool, size(blockOf(t, claim), blockOf(t, after)))
	ours.run("check").ends(0)
	theirs.run("check").ends(0)
}

// loseExport deletes the export and its identity.
func loseExport(t *testing.T, admin client.Client) {
	t.Helper()
	export, secret := &apisv1alpha2.APIExport{}, &corev1.Secret{}
	export.Name, secret.Namespace, secret.Name = workspaces.ExportName, "kcp-system", workspaces.ExportName
	for _, object := range []client.Object{export, secret} {
		framework.Delete(t, admin, object)
		framework.WaitGone(t, admin, object)
	}
}

// bootstrapped makes the platform ready again, and returns the identity of its export.
func bootstrapped(t *testing.T, platform *framework.Platform, admin client.Client) string {
	t.Helper()
	if err := workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{Workspace: platform.Path}); err != nil {
		t.Fatalf("workspaces.Bootstrap: %v", err)
	}
	export := &apisv1alpha2.APIExport{}
	if err := admin.Get(t.Context(), client.ObjectKey{Name: workspaces.ExportName}, export); err != nil {
		t.Fatalf("Get: %v", err)
	}
	return export.Status.IdentityHash
}
