package output

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// tableOf returns an object, or a list of objects, as a table.
func tableOf(object runtime.Object, now time.Time) (t *metav1.Table, err error) {
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		t = Claims([]ipamv1alpha1.IPClaim{*object}, now)
	case *ipamv1alpha1.IPClaimList:
		t = Claims(object.Items, now)
	case *ipamv1alpha1.IPPool:
		t = Pools([]ipamv1alpha1.IPPool{*object}, now)
	case *ipamv1alpha1.IPPoolList:
		t = Pools(object.Items, now)
	case *ipamv1alpha1.IPClass:
		t = Classes([]ipamv1alpha1.IPClass{*object}, now)
	case *ipamv1alpha1.IPClassList:
		t = Classes(object.Items, now)
	case *ipamv1alpha1.IPAllocationList:
		t = Allocations(object.Items, now)
	default:
		err = fmt.Errorf("%T has no table", object)
	}
	return t, err
}

// Claims returns the table of claims. now is for their ages.
func Claims(claims []ipamv1alpha1.IPClaim, now time.Time) *metav1.Table {
	t := NewTable("NAME", "CLASS", "POOL", "REQUESTED", "ALLOCATED", "SCOPE", "PHASE", "REASON", "AGE",
		"workspace", "reclaim", "owner", "description", "message")
	for i := range claims {
		c := &claims[i]
		ref := facts.Pool(c)
		t.Rows = append(t.Rows, Row(c, c.Name, facts.Class(c), ref.Name, facts.Requested(c), c.Status.AllocatedCIDR,
			ipamv1alpha1.ScopeColumn(c.Spec.Scope), string(c.Status.Phase), facts.Reason(c.Status.Conditions),
			facts.Age(c.CreationTimestamp, now), facts.Workspace(ref), string(c.Spec.ReclaimPolicy),
			space.OwnerOf(c.Spec.OwnerRef), c.Annotations[ipamv1alpha1.AnnotationDescription],
			facts.Message(ipamv1alpha1.ConditionAllocated, c.Status.Conditions)))
	}
	HideEmpty(t, "SCOPE")
	return t
}

// Allocations returns the table of allocations. now is for their ages.
func Allocations(allocations []ipamv1alpha1.IPAllocation, now time.Time) *metav1.Table {
	t := NewTable("BLOCK", "SCOPE", "HOLDER", "POOL", "CLASS", "RECLAIM", "AGE", "name", "owner", "expires")
	for i := range allocations {
		a := &allocations[i]
		t.Rows = append(t.Rows, Row(a, a.Status.AllocatedCIDR, ipamv1alpha1.ScopeColumn(a.Spec.Scope),
			space.HoldingOf(a).Holder, a.Spec.PoolRef.Name, a.Spec.ClassName, string(a.Spec.ReclaimPolicy),
			facts.Age(a.CreationTimestamp, now), a.Name, space.OwnerOf(a.Spec.OwnerRef), facts.Expiry(a)))
	}
	HideEmpty(t, "SCOPE")
	return t
}

// Pools returns the table of pools. now is for their ages.
func Pools(pools []ipamv1alpha1.IPPool, now time.Time) *metav1.Table {
	t := NewTable("NAME", "CIDR", "SCOPE", "PARENT", "CLASSES", "UTIL", "LARGEST FREE", "VISIBILITY", "PHASE", "AGE",
		"available", "domain", "consumers", "description", "reason", "message")
	for i := range pools {
		p := &pools[i]
		available := ""
		if p.Status.Capacity != nil {
			available = p.Status.Capacity.Available
		}
		t.Rows = append(t.Rows, Row(p, p.Name, facts.CIDR(p), ipamv1alpha1.ScopeColumn(p.Spec.Scope), facts.Parent(p),
			strings.Join(p.Spec.ClassNames, ","), facts.Utilisation(p), facts.LargestFree(p),
			string(p.Spec.Visibility), string(p.Status.Phase), facts.Age(p.CreationTimestamp, now),
			available, p.Spec.AddressDomain, field.List(&p.Spec.Consumers).String(),
			p.Annotations[ipamv1alpha1.AnnotationDescription],
			facts.Reason(p.Status.Conditions), facts.Message(ipamv1alpha1.ConditionAllocated, p.Status.Conditions)))
	}
	HideEmpty(t, "SCOPE")
	return t
}

// Classes returns the table of classes. now is for their ages.
func Classes(classes []ipamv1alpha1.IPClass, now time.Time) *metav1.Table {
	t := NewTable("NAME", "FAMILY", "LENGTHS", "LENGTH", "STRATEGY", "RECLAIM", "POOLS", "PHASE", "AGE", "provisioner",
		"limit", "is-default", "message")
	for i := range classes {
		c := &classes[i]
		name, byDefault := c.Name, ""
		if facts.IsDefault(c) {
			name, byDefault = name+" (default)", "true"
		}
		t.Rows = append(t.Rows, Row(c, name, string(c.Spec.IPFamily), ipamv1alpha1.LengthsColumn(c.Spec.AllowedPrefixLengths),
			facts.Slash(c.Spec.DefaultPrefixLength), string(c.Spec.Strategy), string(c.Spec.ReclaimPolicy),
			fmt.Sprint(c.Status.OfferingPools), string(c.Status.Phase),
			facts.Age(c.CreationTimestamp, now), c.Spec.Provisioner, string(c.Spec.MaxPerConsumer), byDefault,
			facts.Message(ipamv1alpha1.ConditionReady, c.Status.Conditions)))
	}
	return t
}

// NewTable returns a table without rows. Columns whose name is in lower case are only printed with -o wide.
func NewTable(columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		column := metav1.TableColumnDefinition{Name: strings.ToUpper(name), Type: "string"}
		if name != column.Name {
			column.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, column)
	}
	return t
}

// HideEmpty makes a column appear only with -o wide if all of its cells are empty.
func HideEmpty(t *metav1.Table, column string) {
	at := slices.IndexFunc(t.ColumnDefinitions, func(c metav1.TableColumnDefinition) bool { return c.Name == column })
	if !slices.ContainsFunc(t.Rows, func(r metav1.TableRow) bool { return r.Cells[at] != "-" }) {
		t.ColumnDefinitions[at].Priority = 1
	}
}

// Row returns a row of a table. It writes an empty cell as a dash.
func Row(object runtime.Object, cells ...string) metav1.TableRow {
	shown := make([]any, len(cells))
	for i, cell := range cells {
		shown[i] = cmp.Or(legible.Text(cell), "-")
	}
	return metav1.TableRow{Cells: shown, Object: runtime.RawExtension{Object: object}}
}

// addNamespaces adds a column with the namespace of each row's object.
func addNamespaces(t *metav1.Table) {
	t.ColumnDefinitions = slices.Insert(t.ColumnDefinitions, 0, NewTable("NAMESPACE").ColumnDefinitions...)
	for i, r := range t.Rows {
		t.Rows[i].Cells = slices.Insert(r.Cells, 0, Row(nil, r.Object.Object.(metav1.Object).GetNamespace()).Cells...)
	}
}

// WriteCSV prints all columns of a table as comma-separated values. For programs, the cell NAME of an object has only
// its name.
func WriteCSV(w io.Writer, t *metav1.Table, noHeaders bool) error {
	var records [][]string
	names := make([]string, len(t.ColumnDefinitions))
	for i, column := range t.ColumnDefinitions {
		names[i] = column.Name
	}
	if !noHeaders {
		records = append(records, names)
	}
	for _, r := range t.Rows {
		cells := make([]string, len(r.Cells))
		for i, cell := range r.Cells {
			if object, ok := r.Object.Object.(metav1.Object); ok && names[i] == "NAME" {
				cell = legible.Text(object.GetName())
			}
			if cell != "-" {
				cells[i] = legible.Cell(fmt.Sprint(cell))
			}
		}
		records = append(records, cells)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// WriteTable prints a table without the columns that are for -o wide.
func WriteTable(w io.Writer, t *metav1.Table) error {
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, w)
}
