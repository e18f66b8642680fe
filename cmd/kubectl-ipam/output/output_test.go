package output

import (
	"context"
	"encoding/csv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

// Each kind has a table, and a wide table.
func TestTables_ExistForEachKind(t *testing.T) {
	lab := stage.Ready(gen.Pool("lab", gen.CIDR("10.8.0.0/16"), gen.Backs("internal", "edge"), gen.Domain("old"),
		gen.Visible(ipamv1alpha1.VisibilityShared), gen.Consumers{"root:acme:*"}, stage.HourAgo), "10.8.0.0/16", ipamv1alpha1.IPv4, 37.5, 18)
	lab.Status.Capacity = &ipamv1alpha1.PoolCapacity{Total: "65536", Allocated: "24576", Available: "40960"}
	overlaps := gen.Pool("other", gen.CIDR("10.8.0.0/24"))
	overlaps.Status.Phase = ipamv1alpha1.PoolError
	overlaps.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonOverlap, `10.8.0.0/24 overlaps pool "lab"`)
	internal := gen.Class("internal", gen.Lengths{Min: 24, Max: 28}, gen.DefaultLength(28), gen.Default(), gen.MaxPerConsumer("256"), stage.HourAgo)
	internal.Status.Phase, internal.Status.OfferingPools = ipamv1alpha1.ClassReady, 2

	for name, list := range map[string]runtime.Object{
		"pool_list": &ipamv1alpha1.IPPoolList{Items: []ipamv1alpha1.IPPool{
			*lab, *stage.Ready(gen.Pool("east", gen.ChildOf("lab", 20), stage.HourAgo), "10.8.0.0/20", ipamv1alpha1.IPv4, 100, 0), *overlaps,
		}},
		"class_list": &ipamv1alpha1.IPClassList{Items: []ipamv1alpha1.IPClass{
			*internal, *gen.Class("any", gen.Family(ipamv1alpha1.IPv6), gen.Provisioner("example.com/other")),
		}},
		"allocation_list": &ipamv1alpha1.IPAllocationList{Items: []ipamv1alpha1.IPAllocation{
			*gen.Allocation("web", "lab", "10.8.0.0/28", gen.ByClass("internal"), stage.HourAgo),
			*gen.Allocation("old", "lab", "10.8.0.16/28", gen.Retained(), stage.HourAgo),
		}},
	} {
		for _, format := range []string{Table, Wide, CSV} {
			s := stage.New(t)
			out := Printer{}
			out.AddFlags(&cobra.Command{})
			out.Format = format
			if err := out.Print(s.Out, list, s.Now); err != nil {
				t.Fatalf("%s as %s: %v", name, format, err)
			}
			stage.Golden(t, name+"_"+format, s.Printed.String())
		}
	}
}

// In a table for a spreadsheet, no text that a user chooses becomes a formula.
func TestTables_HaveNoFormulas(t *testing.T) {
	for _, formula := range []string{`=HYPERLINK("http://evil.example","x")`, "+1", "-1", "@SUM(A1)", "\uff1dSUM(A1)", "\uff0b1", "\uff0d1", "\uff20SUM(A1)"} {
		claim := gen.Claim("web", gen.OfClass(formula), gen.OwnedBy(ipamv1alpha1.OwnerRef{Kind: formula, Name: "x"}))
		claim.Status.Conditions = stage.Allocated(ipamv1alpha1.ReasonClassNotFound, formula)
		s := stage.New(t)
		must.Do(t, WriteCSV(s.Out, Claims([]ipamv1alpha1.IPClaim{*claim}, s.Now()), true))
		rows, err := csv.NewReader(strings.NewReader(s.Printed.String())).ReadAll()
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

// Claims are printed in each form.
func TestPrint_PrintsClaimsInEachForm(t *testing.T) {
	web := stage.Bound(gen.Claim("web", gen.OfClass("internal"), gen.Length(28), stage.HourAgo), "10.64.0.0/28", stage.OfPlatform("internal-a"))
	full := stage.Waiting(gen.Claim("batch", gen.OfClass("internal"), gen.Length(24), stage.HourAgo),
		ipamv1alpha1.ReasonPoolExhausted, `pool "lab": no free /24: the largest free block is a /26`)
	list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{*full, *web, *gen.Claim("new")}}
	for _, format := range []string{"table", "wide", "csv", "name", "json", "yaml", "jsonpath={.items[*].status.allocatedCIDR}"} {
		s := stage.New(t)
		out := Printer{}
		out.AddFlags(&cobra.Command{})
		out.Format = format
		must.Do(t, out.validate())
		if err := out.Print(s.Out, list, s.Now); err != nil {
			t.Fatalf("%s: %v", format, err)
		}
		form, _, _ := strings.Cut(format, "=")
		stage.Golden(t, "claim_list_"+form, s.Printed.String())
	}
}

// Classes are listed by name, in whatever order the server lists them.
func TestList_OrdersByName(t *testing.T) {
	c := interceptor.NewClient(stage.Server(t, interceptor.Funcs{}), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		list.(*ipamv1alpha1.IPClassList).Items = []ipamv1alpha1.IPClass{*gen.Class("vip"), *gen.Class("internal"), *gen.Class("tiny")}
		return nil
	}})
	list := &ipamv1alpha1.IPClassList{}
	o := &Listing{Session: stage.New(t).Session}
	must.Do(t, o.read(t.Context(), c, list, &client.ListOptions{}))
	if got, want := namesOf(t, list), "internal tiny vip"; got != want {
		t.Errorf("the classes are listed as %q, want %q", got, want)
	}
}

// namesOf returns the names of the items of a list, in order.
func namesOf(t *testing.T, list runtime.Object) string {
	t.Helper()
	var names []string
	must.Do(t, meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	}))
	return strings.Join(names, " ")
}

// Addresses and numbers are sorted by value. Objects without the field come first.
func TestSort_ComparesByValue(t *testing.T) {
	for path, want := range map[string]string{
		".status.allocatedCIDR": "new b a c",
		"{.spec.prefixLength}":  "new c b a",
		"metadata.name":         "a b c new",
		".status.nothing":       "a new c b",
	} {
		list := &ipamv1alpha1.IPClaimList{Items: []ipamv1alpha1.IPClaim{
			*stage.Bound(gen.Claim("a", gen.Length(30)), "10.64.0.16/30", stage.OfPlatform("p")),
			*gen.Claim("new"),
			*stage.Bound(gen.Claim("c", gen.Length(9)), "100.0.0.0/9", stage.OfPlatform("p")),
			*stage.Bound(gen.Claim("b", gen.Length(28)), "10.9.0.0/28", stage.OfPlatform("p")),
		}}
		must.Do(t, Sort(list, path))
		if got := namesOf(t, list); got != want {
			t.Errorf("sorted by %s: %s, want %s", path, got, want)
		}
	}
	if err := Sort(&ipamv1alpha1.IPClaimList{}, ".status[."); exit.CodeOf(err) != exit.Usage {
		t.Errorf("sorted by a field that is none: %v, want wrong usage", err)
	}
}

// Names may look like numbers. The result is the same, whatever the order before.
func TestSort_OrdersNumbersAndTextsAlike(t *testing.T) {
	const want = "9 10 5x b"
	for _, names := range [][]string{{"5x", "9", "b", "10"}, {"9", "10", "5x", "b"}, {"10", "b", "5x", "9"}} {
		list := &ipamv1alpha1.IPClaimList{}
		for _, name := range names {
			list.Items = append(list.Items, *gen.Claim(name))
		}
		must.Do(t, Sort(list, "metadata.name"))
		if got := namesOf(t, list); got != want {
			t.Errorf("%v sorted by name: %s, want %s", names, got, want)
		}
	}
}

// The numbers of IPv6 addresses exceed the precision of a float64, and 64 bits.
func TestSort_ComparesLargeNumbersExactly(t *testing.T) {
	const more, less = "79228162514264337593543950335", "79228162514264337593543950080" // 2^96-1, 2^96-256
	list := &ipamv1alpha1.IPPoolList{}
	for _, available := range []string{more, less} {
		pool := gen.Pool("p" + available[len(available)-3:])
		pool.Status.Capacity = &ipamv1alpha1.PoolCapacity{Available: available}
		list.Items = append(list.Items, *pool)
	}
	if err := Sort(list, ".status.capacity.available"); err != nil || list.Items[0].Status.Capacity.Available != less {
		t.Errorf("%s comes first (%v); want %s", list.Items[0].Status.Capacity.Available, err, less)
	}
}

// A list for a scope has the objects whose scope names all objects of it, and possibly more.
func TestWithin_KeepsTheObjectsOfAScope(t *testing.T) {
	t.Parallel()
	scopes := []ipamv1alpha1.Scope{
		nil, ipamv1alpha1.Scope(gen.Within("network", "red")), ipamv1alpha1.Scope(gen.Within("network", "red", "location", "ams")), ipamv1alpha1.Scope(gen.Within("network", "blue", "location", "ams")),
	}
	claims, pools, records := &ipamv1alpha1.IPClaimList{}, &ipamv1alpha1.IPPoolList{}, &ipamv1alpha1.IPAllocationList{}
	for i, scope := range scopes {
		claim, pool, record := gen.Claim(string(rune('a'+i))), gen.Pool(string(rune('a'+i))), gen.Allocation(string(rune('a'+i)), "p", "10.0.0.0/32")
		claim.Spec.Scope, pool.Spec.Scope, record.Spec.Scope = scope, scope, scope
		claims.Items, pools.Items, records.Items = append(claims.Items, *claim), append(pools.Items, *pool), append(records.Items, *record)
	}
	for _, tt := range []struct {
		scope ipamv1alpha1.Scope
		want  int
	}{{nil, 4}, {scopes[1], 2}, {scopes[2], 1}, {ipamv1alpha1.Scope(gen.Within("network", "green")), 0}} {
		for _, list := range []client.ObjectList{claims.DeepCopy(), pools.DeepCopy(), records.DeepCopy()} {
			if within(list, tt.scope); meta.LenList(list) != tt.want {
				t.Errorf("of %T, %d are for %v; want %d", list, meta.LenList(list), tt.scope, tt.want)
			}
		}
	}
}
