package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// Every kind has a table of its own, and a wide one.
func TestTables(t *testing.T) {
	lab := ready(gen.Pool("lab", gen.CIDR("10.8.0.0/16"), gen.Backs("internal", "edge"), gen.Domain("old"),
		gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:acme:*"}, hourAgo), "10.8.0.0/16", ipamv1alpha1.IPv4, 37.5, 18)
	lab.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "65536", Allocated: "24576", Available: "40960"}
	overlaps := gen.Pool("other", gen.CIDR("10.8.0.0/24"))
	overlaps.Status.Phase = ipamv1alpha1.PoolError
	overlaps.Status.Conditions = allocated(ipamv1alpha1.ReasonOverlap, `10.8.0.0/24 overlaps pool "lab"`)
	internal := gen.Class("internal", gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28), gen.Default(), gen.MaxPerConsumer("256"), hourAgo)
	internal.Status.Phase, internal.Status.OfferingPools = ipamv1alpha1.ClassReady, 2

	for name, list := range map[string]runtime.Object{
		"pool_list": &ipamv1alpha1.IPPoolList{Items: []ipamv1alpha1.IPPool{
			*lab, *ready(gen.Pool("east", gen.ChildOf("lab", 20), hourAgo), "10.8.0.0/20", ipamv1alpha1.IPv4, 100, 0), *overlaps,
		}},
		"class_list": &ipamv1alpha1.IPClassList{Items: []ipamv1alpha1.IPClass{
			*internal, *gen.Class("any", gen.Family(ipamv1alpha1.IPv6), gen.Provisioner("example.com/other")),
		}},
		"allocation_list": &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{
			*gen.Allocation("web", "lab", "10.8.0.0/28", gen.ByClass("internal"), hourAgo),
			*gen.Allocation("old", "lab", "10.8.0.16/28", gen.Retained(), hourAgo),
		}},
	} {
		for _, format := range []string{outputTable, outputWide, outputCSV} {
			s := newStage(t)
			out := output{}
			out.addFlags(&cobra.Command{})
			out.format = format
			if err := out.print(s.Out, list, s.now); err != nil {
				t.Fatalf("%s as %s: %v", name, format, err)
			}
			golden(t, name+"_"+format, s.out.String())
		}
	}
}

// No text that a user chooses is a formula in a table for a spreadsheet.
func TestTables_NoFormula(t *testing.T) {
	for _, formula := range []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(A1)", "\uff1dSUM(A1)", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"} {
		claim := gen.Claim("web", gen.OfClass(formula), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: formula, Name: "x"}))
		claim.Status.Conditions = allocated(ipamv1alpha1.ReasonClassNotFound, formula)
		s := newStage(t)
		if err := printCSV(s.Out, claimTable([]ipamv1alpha1.IPClaim{*claim}, s.now()), true); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(s.out.String())).ReadAll()
		if err != nil || len(rows) != 1 {
			t.Fatalf("the table has %d rows, %v; want one", len(rows), err)
		}
		shown := 0
		for _, cell := range rows[0] {
			if first, _ := utf8.DecodeRuneInString(cell); cell != "" && strings.ContainsRune("=+-@\uff1d\uff0b\uff0d\uff20", first) {
				t.Errorf("%s becomes the cell %q, which a spreadsheet computes", formula, cell)
			}
			if strings.HasPrefix(cell, "'"+formula) {
				shown++
			}
		}
		if shown != 3 {
			t.Errorf("%s is in %d cells of %q; want class, owner and message to show it as text", formula, shown, rows[0])
		}
	}
}
