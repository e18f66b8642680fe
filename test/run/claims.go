package main

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework/retry"
	"github.com/kcp-ipam/ipam/workspaces"
)

// patience is how long the claims of the samples may take to be bound. They take well
// under a second.
const patience = time.Minute

// sampleClaim returns the claim of config/samples/tenant.
func sampleClaim() (*ipamv1alpha1.IPClaim, error) {
	data, err := fs.ReadFile(config.TenantSamples(), "ipclaim.yaml")
	if err != nil {
		return nil, err
	}
	claim := &ipamv1alpha1.IPClaim{}
	return claim, yaml.UnmarshalStrict(data, claim)
}

// sample creates the samples' claim for a tenant, unless it exists, and waits until it is bound. All other claims are
// the user's own, and no run waits for them.
func (t tenant) sample(ctx context.Context) error {
	claim, err := sampleClaim()
	if err != nil {
		return err
	}
	claim.Namespace = t.namespace
	c, err := workspaces.NewClient(t.cfg)
	if err != nil {
		return err
	}
	if err := c.Create(ctx, claim); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("claim %s/%s of %s: %w", claim.Namespace, claim.Name, t.name, err)
	}
	what := fmt.Sprintf("bind claim %s/%s of %s", claim.Namespace, claim.Name, t.name)
	return retry.Do(ctx, patience, what, func(ctx context.Context) error { return bound(ctx, c, claim) })
}

// bound reads a claim, and returns an error that says why it is not bound.
func bound(ctx context.Context, c client.Client, claim *ipamv1alpha1.IPClaim) error {
	if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
		return err
	}
	if !isBound(claim) {
		return fmt.Errorf("it has no block: %s", whyUnbound(claim))
	}
	return nil
}

// claimTable lists the claims of all tenants in their present state.
func claimTable(ctx context.Context, tenants []tenant) (string, error) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TENANT\tCLAIM\tCLASS\tPOOL\tALLOCATED")
	for _, tenant := range tenants {
		c, err := workspaces.NewClient(tenant.cfg)
		if err != nil {
			return "", err
		}
		claims := &ipamv1alpha1.IPClaimList{}
		if err := c.List(ctx, claims, tenant.listed); err != nil {
			return "", fmt.Errorf("list the claims of %s: %w", tenant.name, err)
		}
		for i := range claims.Items {
			fmt.Fprintln(table, tenant.name+"\t"+row(&claims.Items[i]))
		}
	}
	err := table.Flush()
	return text.String(), err
}

// row returns a line of the table, without the tenant.
func row(claim *ipamv1alpha1.IPClaim) string {
	class, pool, allocated := claim.Spec.ClassName, "-", ""
	if isBound(claim) {
		class, pool, allocated = claim.Status.ClassName, claim.Status.PoolRef.Name, claim.Status.AllocatedCIDR
	} else {
		reason, _, _ := strings.Cut(whyUnbound(claim), ":")
		allocated = "none: " + reason
	}
	if class == "" {
		class = "-"
	}
	return fmt.Sprintf("%s/%s\t%s\t%s\t%s", claim.Namespace, claim.Name, class, pool, allocated)
}

func isBound(claim *ipamv1alpha1.IPClaim) bool {
	return claim.Status.Phase == ipamv1alpha1.ClaimBound && claim.Status.PoolRef != nil
}

// whyUnbound returns reason and message of the condition Allocated of a claim.
func whyUnbound(claim *ipamv1alpha1.IPClaim) string {
	answer := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated)
	if answer == nil {
		return "no answer yet"
	}
	return answer.Reason + ": " + answer.Message
}
