package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

func newPoolList(s *session) *cobra.Command {
	cmd := newList(s, "List the pools of this workspace", func(ctx context.Context, o *listing) error {
		return o.list(ctx, &ipamv1alpha1.IPPoolList{}, "",
			"there are no pools in this workspace; claims by class use those of the platform")
	})
	cmd.Long = `List the pools of this workspace: the CIDR, how full each pool is, and the largest block
that it can still allocate. Pools of other workspaces are not listed.`
	cmd.Example = `  kubectl ipam pool list

  # list the pools with a label by address, with all columns
  kubectl ipam pool list -l site=fra --sort-by .status.allocatedCIDR -o wide`
	return cmd
}

func poolTable(pools []ipamv1alpha1.IPPool, now time.Time) *metav1.Table {
	t := table("NAME", "CIDR", "PARENT", "CLASSES", "UTIL", "LARGEST FREE", "VISIBILITY", "PHASE", "AGE",
		"available", "domain", "consumers", "reason", "message")
	for i := range pools {
		p := &pools[i]
		available := ""
		if p.Status.Capacity != nil {
			available = p.Status.Capacity.Available
		}
		consumers := make([]string, len(p.Spec.Consumers))
		for i, consumer := range p.Spec.Consumers {
			consumers[i] = string(consumer)
		}
		t.Rows = append(t.Rows, row(p, p.Name, cidrOf(p), parentOf(p), strings.Join(p.Spec.ClassNames, ","), utilisation(p),
			largestFree(p), string(p.Spec.Visibility), string(p.Status.Phase), age(p.CreationTimestamp, now),
			available, p.Spec.AddressDomain, strings.Join(consumers, ","), reasonOf(p.Status.Conditions), messageOf(ipamv1alpha1.ConditionAllocated, p.Status.Conditions)))
	}
	return t
}

// cidrOf is the block of a pool: that which it has, else that which it asks for.
func cidrOf(p *ipamv1alpha1.IPPool) string {
	if p.Status.AllocatedCIDR != "" {
		return p.Status.AllocatedCIDR
	}
	return string(p.Spec.CIDR)
}

// parentOf names the parent of a child pool.
func parentOf(p *ipamv1alpha1.IPPool) string {
	if p.Spec.ParentPoolRef == nil {
		return ""
	}
	return space.In(p.Spec.ParentPoolRef.Name, workspaceOfRef(*p.Spec.ParentPoolRef))
}
