package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
	"github.com/kcp-ipam/ipam/ipamclient/examples"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// The Go client works on a real kcp as its documentation says. The tests share a tenant; each has a pool of its own.
func TestGoClient(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	for name, row := range map[string]struct {
		cidr ipamv1alpha1.CIDR
		test func(t *testing.T, tenant *framework.Tenant, pool string)
	}{
		"again":    {"192.0.2.0/24", clientAgain},
		"release":  {"198.51.100.0/24", clientRelease},
		"unmet":    {"203.0.113.0/24", clientUnmet},
		"networks": {"10.0.0.0/24", clientNetworks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := gen.Pool(name, gen.CIDR(row.cidr))
			framework.Allocate(t, tenant, pool)
			serves(t, tenant, gen.FromPool(name))
			row.test(t, tenant, name)
		})
	}
}

// The same request again gets the same block. A different request with that name gets an error that says what
// differs.
func clientAgain(t *testing.T, tenant *framework.Tenant, pool string) {
	request := func() *ipamv1alpha1.IPClaim { return gen.Claim("web", gen.FromPool(pool), gen.Length(28)) }
	first := must.Get(ipamclient.Claim(t.Context(), tenant, request()))(t)
	claim := request()
	again, err := ipamclient.Claim(t.Context(), tenant, claim)
	if err != nil || again.Prefix != first.Prefix || again.Pool.Name != pool || claim.UID == "" {
		t.Errorf("Claim again = %+v, %v; want %+v, and the claim as it is on the server", again, err, first)
	}
	_, err = ipamclient.Claim(t.Context(), tenant, gen.Claim("web", gen.FromPool(pool), gen.Length(27)))
	conflict, ok := errors.AsType[*ipamclient.ConflictError](err)
	if !ok || len(conflict.Differs) != 1 || conflict.Differs[0].String() != "spec.prefixLength is 28, not 27" {
		t.Errorf("Claim of another length: %v; want a conflict over spec.prefixLength", err)
	}
	var blocks [8]netip.Prefix
	var all sync.WaitGroup
	for i := range blocks {
		all.Go(func() {
			a, err := ipamclient.Claim(t.Context(), tenant, gen.Claim("shared", gen.FromPool(pool), gen.Length(28)))
			if err != nil {
				t.Errorf("Claim at the same moment: %v", err)
			}
			blocks[i] = a.Prefix
		})
	}
	all.Wait()
	for _, block := range blocks {
		if block != blocks[0] {
			t.Errorf("claims of one name at the same moment got %v; want one block", blocks)
			break
		}
	}
}

// Release releases the block of a claim, and may be repeated.
func clientRelease(t *testing.T, tenant *framework.Tenant, pool string) {
	request := gen.Claim("whole", gen.FromPool(pool), gen.Length(24))
	held := must.Get(ipamclient.Claim(t.Context(), tenant, request))(t)
	name := client.ObjectKeyFromObject(request)
	if freed, ok, err := ipamclient.Release(t.Context(), tenant, name); err != nil || !ok || freed.Prefix != held.Prefix {
		t.Errorf("Release = %+v, %t, %v; want %s", freed, ok, err, held.Prefix)
	}
	if freed, ok, err := ipamclient.Release(t.Context(), tenant, name); err != nil || ok {
		t.Errorf("Release again = %+v, %t, %v; want nothing, and no error", freed, ok, err)
	}
	// The whole pool is free again: a claim for it waits for nothing else.
	if again, err := ipamclient.Claim(t.Context(), tenant, gen.Claim("next", gen.FromPool(pool), gen.Length(24))); err != nil || again.Prefix != held.Prefix {
		t.Errorf("Claim after Release = %+v, %v; want %s", again, err, held.Prefix)
	}
}

// A claim that cannot be met now is an error with its reason, in whatever way the server says so. The claim is woken
// when the cause is gone.
func clientUnmet(t *testing.T, tenant *framework.Tenant, pool string) {
	must.Get(ipamclient.Claim(t.Context(), tenant, gen.Claim("all", gen.FromPool(pool), gen.Length(24))))(t)
	refused := gen.Claim("refused", gen.FromPool(pool), gen.Length(28), gen.Unmet(ipamv1alpha1.UnmetRefuse))
	_, err := ipamclient.Claim(t.Context(), tenant, refused)
	if unmet, ok := errors.AsType[*ipamclient.UnmetError](err); !ok || unmet.Stored || ipamclient.ReasonOf(err) != ipamv1alpha1.ReasonPoolExhausted {
		t.Errorf("a refused CREATE is %v; want PoolExhausted of a claim that is not stored", err)
	}
	waits := gen.Claim("waits", gen.FromPool(pool), gen.Length(28))
	_, err = ipamclient.Ensure(t.Context(), tenant, waits)
	if unmet, ok := errors.AsType[*ipamclient.UnmetError](err); !ok || !unmet.Stored || unmet.Stalled || unmet.Reason != ipamv1alpha1.ReasonPoolExhausted {
		t.Errorf("a claim that waits is %v; want PoolExhausted of one that is stored", err)
	}
	stalled := gen.Claim("stalled", gen.FromPool(pool), gen.Length(8))
	if _, err = ipamclient.Claim(t.Context(), tenant, stalled); ipamclient.ReasonOf(err) == "" {
		t.Errorf("a claim that can never be met is %v; want its reason, without a wait", err)
	}
	// Wait has passed on the answer before there is room, so an event binds the claim.
	seen := 0
	released := func(unmet *ipamclient.UnmetError) error {
		if seen++; seen == 1 {
			_, _, err := ipamclient.Release(t.Context(), tenant, client.ObjectKey{Namespace: "default", Name: "all"})
			return err
		}
		return nil
	}
	if got, err := ipamclient.Wait(t.Context(), tenant, waits, released); err != nil || got.Prefix.Bits() != 28 || seen == 0 {
		t.Errorf("Wait = %+v, %v, after %d answers; want a /28", got, err, seen)
	}
	ended := errors.New("enough")
	_, err = ipamclient.Wait(t.Context(), tenant, gen.Claim("nobodys"), func(*ipamclient.UnmetError) error { return ended })
	if !errors.Is(err, ended) {
		t.Errorf("Wait returns %v; want what the caller ended it with", err)
	}
	if _, err := ipamclient.Wait(t.Context(), tenant, gen.Claim("nobodys"), nil); !errors.Is(err, ipamclient.ErrGone) {
		t.Errorf("Wait for a claim that is not there: %v; want ErrGone", err)
	}
}

// After a restart, an operator without state of its own finds the addresses that it has given, and goes on.
func TestGoClient_FindsItsAddressesAfterARestart(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.Lengths{Min: 32, Max: 32}, gen.DefaultLength(32))
	s.pool(part(s.cidr, 30))
	machine := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{examples.LabelMachine: "true"}}}
	}
	addressOf := func(name string, has func(string) bool) string {
		m := machine(name)
		framework.WaitWhile(t, s.tenant, m, "it has another address", func(m *corev1.ConfigMap) bool { return !has(m.Data["address"]) })
		return m.Data["address"]
	}
	isAddress := func(text string) bool { _, err := netip.ParseAddr(text); return err == nil }

	stop := s.operate()
	given := map[string]string{}
	for _, name := range []string{"m1", "m2", "m3", "m4"} {
		framework.Create(t, s.tenant, machine(name))
		given[name] = addressOf(name, isAddress)
	}
	framework.Create(t, s.tenant, machine("m5"))
	addressOf("m5", func(text string) bool { return text == "waits: PoolExhausted" })
	stop()

	lost := machine("m2")
	framework.WaitFor(t, s.tenant, lost, func(*corev1.ConfigMap) error { return nil })
	framework.Update(t, s.tenant, lost, func(m *corev1.ConfigMap) { m.Data = nil })
	framework.Delete(t, s.tenant, machine("m1"))
	defer s.operate()()
	if again := addressOf("m2", isAddress); again != given["m2"] {
		t.Errorf("after the restart m2 has %s; want %s as before", again, given["m2"])
	}
	framework.WaitGone(t, s.tenant, machine("m1"))
	if freed := addressOf("m5", isAddress); freed != given["m1"] {
		t.Errorf("m5 has %s; want %s, the one address that was given back", freed, given["m1"])
	}
}

// operate runs the examples' operator in the tenant's workspace. The returned function stops it.
func (s scene) operate() (stop func()) {
	s.Helper()
	mgr := must.Get(ctrl.NewManager(s.tenant.Config(), ctrl.Options{
		Scheme: workspaces.NewScheme(), Metrics: metricsserver.Options{BindAddress: "0"},
	}))(s)
	operator := &examples.Operator{Client: mgr.GetClient(), Claims: s.tenant.WithWatch, ClassName: s.name}
	must.Do(s, operator.SetUp(mgr))
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the operator ended: %v", err)
		}
	}
}

// A cluster gets all of its blocks, or all are released.
func clientNetworks(t *testing.T, tenant *framework.Tenant, pool string) {
	networks := func(services int32) examples.Networks {
		from := &ipamv1alpha1.PoolRef{Name: pool}
		return examples.Networks{
			"nodes": {PoolRef: from, PrefixLength: 26}, "pods": {PoolRef: from, PrefixLength: 26}, "services": {PoolRef: from, PrefixLength: services},
		}
	}
	blocks, err := examples.ClaimNetworks(t.Context(), tenant, "default", "a", networks(27))
	if err != nil || len(blocks) != 3 {
		t.Fatalf("ClaimNetworks = %v, %v; want 3 blocks", blocks, err)
	}
	if again, err := examples.ClaimNetworks(t.Context(), tenant, "default", "a", networks(27)); err != nil || fmt.Sprint(again) != fmt.Sprint(blocks) {
		t.Errorf("ClaimNetworks again = %v, %v; want %v", again, err, blocks)
	}
	if blocks, err := examples.ClaimNetworks(t.Context(), tenant, "default", "b", networks(27)); ipamclient.ReasonOf(err) != ipamv1alpha1.ReasonPoolExhausted {
		t.Errorf("ClaimNetworks of a full pool = %v, %v; want PoolExhausted", blocks, err)
	}
	framework.Eventually(t, "the claims of cluster b to be gone", func(ctx context.Context) error {
		claims := &ipamv1alpha1.IPClaimList{}
		if err := tenant.List(ctx, claims, client.InNamespace("default")); err != nil {
			return err
		}
		for _, claim := range claims.Items {
			if strings.HasPrefix(claim.Name, "b.") {
				return fmt.Errorf("%s is there", claim.Name)
			}
		}
		return nil
	})
}

// The whole program of docs/go-client.md runs in its own module, which the commands of the page make.
func TestGoClient_RunsInAModuleOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class(gen.DefaultLength(28))
	s.pool(s.cidr)
	root := must.Get(local.ModuleRoot())(t)
	dir := t.TempDir()
	for _, name := range []string{"ipamclient/examples/claim/main.go", "go.sum"} { // the sums, as a test asks no database for them
		data := must.Get(os.ReadFile(filepath.Join(root, name)))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600))
	}
	page := must.Get(os.ReadFile(filepath.Join(root, "docs/go-client.md")))(t)
	_, made, found := strings.Cut(string(page), "```\ngo mod init")
	made, _, ends := strings.Cut(made, "KUBECONFIG=")
	if !found || !ends {
		t.Fatal("docs/go-client.md has no block that makes a module")
	}
	cli := s.tenant.CLI(t)
	build := fmt.Sprintf("cd %s && IPAM=%s && export GOWORK=off && set -e\ngo mod init%s", dir, root, made)
	if ran := cli.RunIn(t, "sh", "-c", build); ran.Code != 0 {
		t.Fatalf("the commands of the page end with %d:\n%s", ran.Code, ran.Err)
	}
	first, again := cli.RunIn(t, filepath.Join(dir, "claim"), s.name, "whole"), cli.RunIn(t, filepath.Join(dir, "claim"), s.name, "whole")
	if prefix, err := netip.ParsePrefix(strings.TrimSpace(first.Out)); err != nil || prefix.Bits() != 28 || again.Out != first.Out {
		t.Errorf("the program prints %q and %q, %v, %s; want one /28 twice", first.Out, again.Out, err, first.Err)
	}
}
