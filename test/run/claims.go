package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/workspaces"
)

// patience is how long the claims may take to be bound. They take well under a second.
const patience = 2 * time.Minute

// boundClaims waits until every claim of every tenant is bound, and returns them as a table.
func boundClaims(ctx context.Context, cfg *rest.Config) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "TENANT\tCLAIM\tCLASS\tPOOL\tALLOCATED")
	for _, tenant := range tenants {
		claims, err := bound(ctx, cfg, tenant)
		if err != nil {
			return "", err
		}
		for _, claim := range claims {
			fmt.Fprintf(table, "%s\t%s/%s\t%s\t%s\t%s\n", tenant, claim.Namespace, claim.Name,
				claim.Status.ClassName, claim.Status.PoolRef.Name, claim.Status.AllocatedCIDR)
		}
	}
	err := table.Flush()
	return text.String(), err
}

// bound waits until every claim of a tenant is bound, and returns them.
func bound(ctx context.Context, cfg *rest.Config, tenant string) ([]ipamv1alpha1.IPClaim, error) {
	c, err := workspaces.NewClient(workspaces.At(cfg, tenant))
	if err != nil {
		return nil, err
	}
	claims := &ipamv1alpha1.IPClaimList{}
	var missing error
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		if err := c.List(ctx, claims); err != nil {
			return false, err
		}
		missing = firstUnbound(claims)
		return missing == nil, nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claims of %s: %w", tenant, err), missing)
	}
	return claims.Items, nil
}

// firstUnbound says which claim is not bound, and why, or returns nil.
func firstUnbound(claims *ipamv1alpha1.IPClaimList) error {
	for _, claim := range claims.Items {
		if claim.Status.Phase == ipamv1alpha1.ClaimBound && claim.Status.PoolRef != nil {
			continue
		}
		why := "nobody has looked at it"
		if answer := meta.FindStatusCondition(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated); answer != nil {
			why = answer.Reason + ": " + answer.Message
		}
		return fmt.Errorf("%s/%s is not bound (%s)", claim.Namespace, claim.Name, why)
	}
	return nil
}
