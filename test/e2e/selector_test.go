package e2e

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// Labels that change later wake those who wait, and move nobody.
func TestSelector_LabelsChange(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	pool := s.ownPool(gen.Label("tier", "web"))
	web, db := gen.Claim("web", gen.Selecting("tier", "web"), gen.Length(28)), gen.Claim("db", gen.Selecting("tier", "db"), gen.Length(28))
	framework.Create(t, s.tenant, web, db)
	framework.WaitBound(t, s.tenant, web)
	framework.WaitAllocated(t, s.tenant, db, ipamv1alpha1.ReasonPoolNotFound)

	must.Do(t, s.tenant.Patch(t.Context(), pool, merge(`{"metadata": {"labels": {"tier": "db"}}}`)))
	framework.WaitBound(t, s.tenant, db)
	unchanged(t, s.tenant, web)
}

// Who selects a pool is told that this is deprecated, when the claim is made and as a
// warning that clients show; nobody else is.
func TestSelector_Deprecated(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	heard := &warnings{}
	cfg := rest.CopyConfig(tenant.Config())
	cfg.WarningHandler = heard
	c := must.Get(client.New(cfg, client.Options{Scheme: tenant.Scheme()}))(t)
	framework.Create(t, c, gen.Claim("by-class", gen.OfClass("none")), gen.Claim("by-pool", gen.FromPool("none")), gen.Pool("pool"))
	if said := heard.all(); len(said) != 0 {
		t.Errorf("warnings without a selector: %q", said)
	}
	framework.Eventually(t, "the warning", func(ctx context.Context) error { // a policy takes effect a moment after it is made
		if err := c.Create(ctx, selecting("", ipamv1alpha1.PoolSelector{})); err != nil {
			return err
		}
		if len(heard.all()) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	if said := heard.all(); !strings.Contains(said[0], "spec.poolSelector is deprecated: name a class by spec.className, or a pool by spec.poolRef") {
		t.Errorf("the warning is %q; want it to say what to write instead", said)
	}
}

// selecting is a claim by a selector, of a generated name if it is given none.
func selecting(name string, selector ipamv1alpha1.PoolSelector) *ipamv1alpha1.IPClaim {
	claim := gen.Claim(name, gen.Length(28))
	claim.Spec.PoolSelector = &selector
	if name == "" {
		claim.GenerateName = "claim-"
	}
	return claim
}

// warnings collects what a server warns of. The zero value is ready; safe for concurrent use.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}
