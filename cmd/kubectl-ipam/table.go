package main

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// table is a table of which every row is an object. Columns named in lower case are
// for -o wide.
func table(columns ...string) *metav1.Table {
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

// row is a line of a table. An empty cell is a dash.
func row(object runtime.Object, cells ...string) metav1.TableRow {
	shown := make([]any, len(cells))
	for i, cell := range cells {
		shown[i] = cmp.Or(plain(cell), "-")
	}
	return metav1.TableRow{Cells: shown, Object: runtime.RawExtension{Object: object}}
}

// addNamespaces adds a column with the namespace of each row's object.
func addNamespaces(t *metav1.Table) {
	t.ColumnDefinitions = slices.Insert(t.ColumnDefinitions, 0, table("NAMESPACE").ColumnDefinitions...)
	for i, r := range t.Rows {
		t.Rows[i].Cells = slices.Insert(r.Cells, 0, row(nil, r.Object.Object.(metav1.Object).GetNamespace()).Cells...)
	}
}

// printCSV prints all columns of a table as comma-separated values. The column NAME of an object has
// nothing but its name, for programs.
func printCSV(w io.Writer, t *metav1.Table, noHeaders bool) error {
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
				cell = plain(object.GetName())
			}
			if cell != "-" {
				cells[i] = legible.Cell(fmt.Sprint(cell))
			}
		}
		records = append(records, cells)
	}
	return csv.NewWriter(w).WriteAll(records)
}

// tableOf is an object or a list of them as a table.
func tableOf(object runtime.Object, now time.Time) (*metav1.Table, error) {
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		return claimTable([]ipamv1alpha1.IPClaim{*object}, now), nil
	case *ipamv1alpha1.IPClaimList:
		return claimTable(object.Items, now), nil
	case *ipamv1alpha1.IPPool:
		return poolTable([]ipamv1alpha1.IPPool{*object}, now), nil
	case *ipamv1alpha1.IPPoolList:
		return poolTable(object.Items, now), nil
	case *ipamv1alpha1.IPClass:
		return classTable([]ipamv1alpha1.IPClass{*object}, now), nil
	case *ipamv1alpha1.IPClassList:
		return classTable(object.Items, now), nil
	case *ipamv1alpha1.IPAllocationList:
		return allocationTable(object.Items, now), nil
	default:
		return nil, fmt.Errorf("%T has no table", object)
	}
}

func claimTable(claims []ipamv1alpha1.IPClaim, now time.Time) *metav1.Table {
	t := table("NAME", "CLASS", "POOL", "REQUESTED", "ALLOCATED", "PHASE", "REASON", "AGE", "workspace", "reclaim", "owner", "message")
	for i := range claims {
		c := &claims[i]
		ref := poolOf(c)
		t.Rows = append(t.Rows, row(c, c.Name, className(c), ref.Name, requested(c), c.Status.AllocatedCIDR, string(c.Status.Phase),
			reasonOf(c.Status.Conditions), age(c.CreationTimestamp, now), workspaceOfRef(ref),
			string(c.Spec.ReclaimPolicy), space.OwnerOf(c.Spec.OwnerRef), messageOf(ipamv1alpha1.ConditionAllocated, c.Status.Conditions)))
	}
	return t
}

func allocationTable(allocations []ipamv1alpha1.IPAllocation, now time.Time) *metav1.Table {
	t := table("BLOCK", "HOLDER", "POOL", "CLASS", "RECLAIM", "AGE", "name", "owner", "expires")
	for i := range allocations {
		a := &allocations[i]
		t.Rows = append(t.Rows, row(a, a.Status.AllocatedCIDR, space.HoldingOf(a).Holder, a.Spec.PoolRef.Name, a.Spec.ClassName,
			string(a.Spec.ReclaimPolicy), age(a.CreationTimestamp, now), a.Name, space.OwnerOf(a.Spec.OwnerRef), expiry(a)))
	}
	return t
}

// className is the class of a claim: the one used, else the one asked for.
func className(c *ipamv1alpha1.IPClaim) string {
	if c.Status.ClassName != "" {
		return c.Status.ClassName
	}
	return c.Spec.ClassName
}

// poolOf is the pool of a claim: the one used, else the one asked for.
func poolOf(c *ipamv1alpha1.IPClaim) ipamv1alpha1.PoolRef {
	if c.Status.PoolRef != nil {
		return *c.Status.PoolRef
	}
	if c.Spec.PoolRef != nil {
		return *c.Spec.PoolRef
	}
	return ipamv1alpha1.PoolRef{}
}

func workspaceOfRef(ref ipamv1alpha1.PoolRef) string {
	if ref.ProjectRef == nil {
		return ""
	}
	return ref.ProjectRef.Name
}

// requested is the block that a claim asks for, by itself or by the default of its class.
func requested(c *ipamv1alpha1.IPClaim) string {
	return cmp.Or(c.Status.Requested, ipamv1alpha1.RequestedColumn(c.Spec))
}

func reasonOf(conditions []metav1.Condition) string {
	if found := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionAllocated); found != nil {
		return found.Reason
	}
	return ""
}

// messageOf is the message of the condition of that type; empty without one.
func messageOf(kind string, conditions []metav1.Condition) string {
	if found := meta.FindStatusCondition(conditions, kind); found != nil {
		return found.Message
	}
	return ""
}

func age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since.Time))
}
