package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/health"
	"github.com/kcp-ipam/ipam/test/must"
)

// The tests share one platform. They show how the tools judge its objects.
func TestGitOps(t *testing.T) {
	t.Parallel()
	platform := framework.NewPlatform(t)
	platform.StartController(t)
	offer(t, platform, "internal", platform.CIDR(t), gen.DefaultLength(28), gen.Lengths{Min: 8, Max: 32})
	tenant := platform.Tenant(t)
	platform.WaitWebhooks(t, tenant)
	serves(t, tenant, gen.OfClass("internal"))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *framework.Platform, *framework.Tenant)
	}{
		{"Manifests", manifestsOfThePage},
		{"States", toolsAgree}, // the last: it stops the controller
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, platform, tenant) })
	}
}

// toolsAgree creates an object in each state. kstatus, the health check of Argo CD, and kubectl wait agree on each of
// them.
func toolsAgree(t *testing.T, platform *framework.Platform, tenant *framework.Tenant) {
	of := gen.OfClass("internal")
	full, holder := gen.Pool("full", gen.CIDR("10.200.0.0/30")), gen.Claim("holder", gen.FromPool("full"), gen.Length(30))
	framework.Allocate(t, tenant, full)
	framework.Bind(t, tenant, holder)
	broken, sound := gen.Class("broken", gen.Provisioner("example.com/none")), gen.Class("internal")
	bound, waiting, stalled := gen.Claim("bound", of), gen.Claim("waiting", of, gen.Length(8)), gen.Claim("stalled", of, gen.Family(ipamv1alpha1.IPv6))
	framework.Create(t, platform, broken)
	framework.Create(t, tenant, bound, waiting, stalled)
	framework.WaitFor(t, tenant, full, func(p *ipamv1alpha1.IPPool) error {
		if p.Status.Phase != ipamv1alpha1.PoolExhausted {
			return fmt.Errorf("its phase is %s", p.Status.Phase)
		}
		return nil
	})
	if err := tenant.Create(t.Context(), gen.Claim("refused", of, gen.Length(8), gen.Unmet(ipamv1alpha1.UnmetRefuse))); err == nil {
		t.Error("a claim that cannot be met, and says Refuse, is created; want its CREATE to fail")
	}
	people := map[client.Reader]framework.CLI{tenant: tenant.CLI(t), platform: platform.CLI(t, "ipam-class-admin")}
	agree := func(c client.Reader, object client.Object, kind string, want health.Health) {
		t.Helper()
		framework.Eventually(t, fmt.Sprintf("%s %s to be %s", kind, object.GetName(), want), func(ctx context.Context) error {
			shown := &unstructured.Unstructured{}
			shown.SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind))
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), shown); err != nil {
				return err
			}
			if got, err := health.Of(shown); err != nil || got != want {
				return fmt.Errorf("it is %s, %w", got, err)
			}
			return nil
		})
		waited := people[c].RunIn(t, framework.Kubectl(t), "wait", "--for=condition=Ready", "--timeout=1s", strings.ToLower(kind)+"/"+object.GetName())
		if (waited.Code == 0) != (want == health.Healthy) {
			t.Errorf("kubectl wait on the %s %s, which is %s, ended with %d\n%s%s", kind, object.GetName(), want, waited.Code, waited.Out, waited.Err)
		}
	}
	agree(tenant, bound, "IPClaim", health.Healthy)
	agree(tenant, gen.Allocation("bound", "internal", "10.0.0.0/28"), "IPAllocation", health.Healthy)
	agree(tenant, waiting, "IPClaim", health.Progressing)
	agree(tenant, stalled, "IPClaim", health.Degraded)
	agree(tenant, full, "IPPool", health.Healthy)
	agree(platform, sound, "IPClass", health.Healthy)
	agree(platform, broken, "IPClass", health.Degraded)
	gone := people[tenant].RunIn(t, framework.Kubectl(t), "wait", "--for=condition=Ready", "--timeout=1s", "ipclaim/refused")
	if gone.Code == 0 || !strings.Contains(gone.Err, "not found") {
		t.Errorf("kubectl wait on a claim that was refused ended with %d, %s; want that it is not found", gone.Code, gone.Err)
	}
	platform.KillController(t)
	claim, pool, class := gen.Claim("unanswered", of), gen.Pool("unanswered", gen.CIDR("10.201.0.0/24")), gen.Class("unanswered")
	framework.Create(t, tenant, claim, pool)
	framework.Create(t, platform, class)
	agree(tenant, claim, "IPClaim", health.Progressing)
	agree(tenant, pool, "IPPool", health.Progressing)
	agree(platform, class, "IPClass", health.Progressing)
}

// manifestsOfThePage applies the manifests of docs/gitops.md in the wrong order and in the right one, in both ways of
// kubectl, and prunes them.
func manifestsOfThePage(t *testing.T, _ *framework.Platform, tenant *framework.Tenant) {
	all := pageManifests(t)
	slices.Reverse(all) // claims before their pool
	kubectl, person := framework.Kubectl(t), tenant.CLI(t)
	apply := func(manifests []string, flags ...string) framework.Ran {
		t.Helper()
		file := filepath.Join(t.TempDir(), "all.yaml")
		must.Do(t, os.WriteFile(file, []byte(strings.Join(manifests, "---\n")), 0o600))
		return person.RunIn(t, kubectl, append([]string{"apply", "-f", file}, flags...)...)
	}
	applied := func(ran framework.Ran) {
		t.Helper()
		if ran.Code != 0 {
			t.Fatalf("kubectl apply ended with %d\n%s%s", ran.Code, ran.Out, ran.Err)
		}
	}
	applied(apply(all))
	ready := person.RunIn(t, kubectl, "wait", "--for=condition=Ready", "--timeout=60s", "ippool/shop", "ipclaim/shop-web", "ipclaim/shop-ingress")
	applied(ready)
	before := revisions(t, tenant)
	if len(before) != 3 {
		t.Fatalf("there are %v; want a pool and two claims", before)
	}
	again := apply(all)
	applied(again)
	if got := strings.Count(again.Out, " unchanged\n"); got != len(all) {
		t.Errorf("the second apply changes something:\n%s", again.Out)
	}
	applied(apply(all, "--server-side", "--force-conflicts"))
	taken := revisions(t, tenant) // a new field manager changes the versions
	slices.Reverse(all)
	applied(apply(all, "--server-side"))
	if now := revisions(t, tenant); fmt.Sprint(now) != fmt.Sprint(taken) {
		t.Errorf("a second server-side apply writes: %v, was %v", now, taken)
	}
	prune := []string{"--prune", "-l", "app=shop",
		"--prune-allowlist=ipam.miloapis.com/v1alpha1/IPClaim", "--prune-allowlist=ipam.miloapis.com/v1alpha1/IPPool"}
	applied(apply(all[:2], prune...))
	if now := revisions(t, tenant); len(now) != 2 || now["IPClaim shop-ingress"] != "" {
		t.Errorf("after pruning a claim, there are %v; want the pool and the claim of it", now)
	}
	// The pool's deletion is refused while its claim exists: the next try deletes the pool.
	framework.Eventually(t, "the pool and its claim to be pruned", func(context.Context) error {
		apply(all[2:], prune...)
		if now := revisions(t, tenant); len(now) != 1 || now["IPClaim shop-ingress"] == "" {
			return fmt.Errorf("there are %v; want a claim alone", now)
		}
		return nil
	})
}

// pageManifests returns the manifests of this API on the page, each with a line break at its end.
func pageManifests(t *testing.T) (found []string) {
	t.Helper()
	root := must.Get(local.ModuleRoot())(t)
	page := must.Get(os.ReadFile(filepath.Join(root, "docs", "gitops.md")))(t)
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		for one := range strings.SplitSeq(block[1], "---\n") {
			if strings.HasPrefix(one, "apiVersion: "+ipamv1alpha1.GroupVersion.String()) {
				found = append(found, one)
			}
		}
	}
	return found
}

// revisions returns the resourceVersion of each object of the page, by kind and name, once the system has stopped
// writing.
func revisions(t *testing.T, tenant *framework.Tenant) map[string]string {
	t.Helper()
	found := map[string]string{}
	claims, pools := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}
	selected := client.MatchingLabels{"app": "shop"}
	for _, err := range []error{tenant.List(t.Context(), claims, selected), tenant.List(t.Context(), pools, selected)} {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for _, claim := range claims.Items {
		found["IPClaim "+claim.Name] = claim.ResourceVersion
	}
	for _, pool := range pools.Items {
		found["IPPool "+pool.Name] = fmt.Sprint(pool.UID, pool.Generation, len(pool.ManagedFields)) // its status follows the ledger
	}
	return found
}
