//go:build long

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

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/recover"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// An export that is lost, in one way after the other, is made again, and then everything works again.
func TestLong_Export(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	s := scene{T: t, platform: platform, tenant: platform.Tenant(t), name: framework.Name(t), cidr: platform.CIDR(t)}
	pool := offer(t, platform, s.name, s.cidr)
	claims := []*ipamv1alpha1.IPClaim{s.holds("before", gen.Length(28))}
	goesOn := func(after string) {
		t.Helper()
		claims = append(claims, s.holds(after, gen.Length(28)))
		framework.WaitBound(t, s.tenant, claims...)
		waitHeld(t, platform, pool, size(blocksOf(t, claims...)...))
	}
	ours, theirs := cli{framework.AdminCLI(t, platform.Path), t}, cli{framework.AdminCLI(t, s.tenant.Path), t}
	s.exportDeleted(ours, theirs)
	goesOn("made-again")
	ours.run("check").ends(0)
	theirs.run("check").ends(0)
	s.exportOfAnotherIdentity()
	goesOn("with-its-identity")
}

// exportOfAnotherIdentity deletes the export and its secret. A new export has another identity, and shows none of the
// former claims: then no replica is ready, and no block is freed. With the former secret, everything works again.
func (s scene) exportOfAnotherIdentity() {
	s.Helper()
	admin, identity, binding := framework.Admin(s, s.platform.Path), &corev1.Secret{}, &apisv1alpha2.APIBinding{}
	identity.Namespace, identity.Name, binding.Name = "kcp-system", workspaces.ExportName, workspaces.BindingName
	framework.Read(s, admin, identity)
	framework.Read(s, framework.Admin(s, s.tenant.Path), binding)
	bound := binding.Status.BoundResources[0].Schema.IdentityHash

	loseExport(s.T, admin)
	if other := bootstrapped(s.T, s.platform, admin); other == bound {
		s.Errorf("without its secret the export has the identity %s again", other)
	}
	framework.Eventually(s, "the controller to see the other identity", func(ctx context.Context) error {
		if err := s.platform.Probe(ctx, "/readyz/endpoints"); err == nil || !strings.Contains(err.Error(), "--accept-identity") {
			return fmt.Errorf("its probe answers: %w", err)
		}
		return nil
	})
	finds(s.T, s.platform, recover.ExportReplaced, workspaces.ExportName)
	s.platform.StopController(s)
	loseExport(s.T, admin)
	identity.ObjectMeta = metav1.ObjectMeta{Namespace: identity.Namespace, Name: identity.Name}
	framework.Create(s, admin, identity)
	if same := bootstrapped(s.T, s.platform, admin); same != bound {
		s.Fatalf("with its secret the export has the identity %s, want %s", same, bound)
	}
	s.platform.StartController(s)
}

// exportDeleted deletes the export. kcp goes on serving what it has bound, but the controller serves no tenant any
// more. Each tool says so. Once the export exists again, everything works again.
func (s scene) exportDeleted(ours, theirs cli) {
	s.Helper()
	admin, export := framework.Admin(s, s.platform.Path), &apisv1alpha2.APIExport{}
	export.Name = workspaces.ExportName
	framework.Delete(s, admin, export)
	framework.Eventually(s, "the controller not to be ready", func(ctx context.Context) error {
		if s.platform.Probe(ctx, "/readyz") == nil {
			return errors.New("it is ready")
		}
		return nil
	})
	framework.Eventually(s, "the binding to lack its export", func(context.Context) error {
		if checked := theirs.run("check"); !strings.Contains(checked.Out, "APIExportNotFound") {
			return errors.New(checked.Out)
		}
		return nil
	})
	shows(s.T, theirs.run("check").ends(8).Err, "the first is binding", "kubectl ipam init")
	shows(s.T, ours.run("check").ends(8).Err, "the first is export", "there is no APIExport")

	bootstrapped(s.T, s.platform, admin)
	framework.Eventually(s, "the controller to be ready", func(ctx context.Context) error { return s.platform.Probe(ctx, "/readyz") })
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

// bootstrapped bootstraps the platform again, and returns the identity of its export.
func bootstrapped(t *testing.T, platform *framework.Platform, admin client.Client) string {
	t.Helper()
	must.Do(t, workspaces.Bootstrap(t.Context(), framework.AdminConfig(t), workspaces.Options{Workspace: platform.Path}))
	export := &apisv1alpha2.APIExport{}
	must.Do(t, admin.Get(t.Context(), client.ObjectKey{Name: workspaces.ExportName}, export))
	return export.Status.IdentityHash
}
