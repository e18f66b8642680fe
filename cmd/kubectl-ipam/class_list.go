package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

func newClassList(s *session) *cobra.Command {
	cmd := newList(s, "List the classes that this workspace is shown", func(ctx context.Context, o *listing) error {
		return o.list(ctx, &ipamv1alpha1.IPClassList{}, "",
			"there are no classes for everybody; the platform may have others, to be claimed by name")
	})
	cmd.Long = `List the classes that this workspace is shown, with their rules. The platform may have
further classes for some workspaces only. They are not listed, and can be claimed by name.`
	cmd.Example = `  kubectl ipam class list

  # list the limit of each class as well
  kubectl ipam class list -o wide`
	return cmd
}

func classTable(classes []ipamv1alpha1.IPClass, now time.Time) *metav1.Table {
	t := table("NAME", "FAMILY", "LENGTHS", "LENGTH", "STRATEGY", "RECLAIM", "POOLS", "PHASE", "AGE", "provisioner", "limit", "is-default", "message")
	for i := range classes {
		c := &classes[i]
		name, byDefault := c.Name, ""
		if isDefault(c) {
			name, byDefault = name+" (default)", "true"
		}
		t.Rows = append(t.Rows, row(c, name, string(c.Spec.IPFamily), ipamv1alpha1.LengthsColumn(c.Spec.AllowedPrefixLengths), slash(c.Spec.DefaultPrefixLength),
			string(c.Spec.Strategy), string(c.Spec.ReclaimPolicy), fmt.Sprint(c.Status.OfferingPools), string(c.Status.Phase),
			age(c.CreationTimestamp, now), c.Spec.Provisioner, string(c.Spec.MaxPerConsumer), byDefault, messageOf(ipamv1alpha1.ConditionReady, c.Status.Conditions)))
	}
	return t
}

func isDefault(c *ipamv1alpha1.IPClass) bool {
	return c.Annotations[ipamv1alpha1.AnnotationDefaultClass] == "true"
}

// classLengths are the lengths that a class allows.
func classLengths(c *ipamv1alpha1.IPClass) string {
	if c.Spec.AllowedPrefixLengths == nil {
		return "any length"
	}
	return lengthsOf(c.Spec.AllowedPrefixLengths.Min, c.Spec.AllowedPrefixLengths.Max)
}

// slash writes a prefix length; empty for none.
func slash(length int32) string {
	if length == 0 {
		return ""
	}
	return fmt.Sprintf("/%d", length)
}
