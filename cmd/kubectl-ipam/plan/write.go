package plan

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// List is the plan as one object, for JSON.
func (p *Plan) List() any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": p.Objects()}
}

// Objects are the pools and claims of the plan, as [ReadYAML] and kubectl apply take them.
func (p *Plan) Objects() []any {
	objects := make([]any, 0, len(p.Pools)+len(p.Claims))
	for _, pool := range p.Pools {
		objects = append(objects, pool.IPPool)
	}
	for _, claim := range p.Claims {
		objects = append(objects, claim.IPClaim)
	}
	return objects
}

// WriteCSV writes a plan as a table, with the columns that it needs. What a table cannot say is
// left out, and returned by name: unprintable characters, what a spreadsheet would take for a
// formula, or an owner with a slash in its name. A description is left out by itself.
func WriteCSV(w io.Writer, p *Plan) (left []string, _ error) {
	rows := make([]map[string]string, 0, len(p.Pools)+len(p.Claims))
	add := func(name string, cells map[string]string, wanted metav1.Object) {
		same := func() bool {
			wanted.SetAnnotations(described(cells[columnDescription]))
			read := reread(cells)
			return len(read) == 1 && equality.Semantic.DeepEqual(read[0], wanted)
		}
		if !same() {
			described := cells[columnDescription] != ""
			cells[columnDescription] = ""
			if !described || !same() {
				left = append(left, name)
				return
			}
			left = append(left, "description of "+name)
		}
		rows = append(rows, cells)
	}
	for _, pool := range p.Pools {
		rest, exclusions, unsaid := apart(pool.IPPool)
		before := len(rows)
		if add(kindPool+" "+pool.Name, poolCells(rest), rest); len(rows) > before {
			rows, left = append(rows, exclusions...), append(left, unsaid...)
		}
	}
	for _, claim := range p.Claims {
		add(kindClaim+" "+claim.name(), claimCells(claim.IPClaim), claim.DeepCopy())
	}
	return left, writeRows(w, rows)
}

// reread reads cells as a table with one row, and returns its objects. There are none if a cell cannot be printed.
func reread(cells map[string]string) []any {
	for _, cell := range cells {
		if legible.Cell(cell) != cell {
			return nil
		}
	}
	var table bytes.Buffer
	if err := writeRows(&table, []map[string]string{cells}); err != nil {
		return nil
	}
	p, wrong := ReadCSV(table.Bytes(), Options{})
	if len(wrong) > 0 {
		return nil
	}
	return p.Objects()
}

// writeRows writes kind, name and cidr, and the columns that a row has something in.
func writeRows(w io.Writer, rows []map[string]string) error {
	used := map[string]bool{columnKind: true, columnName: true, columnCIDR: true}
	for _, cells := range rows {
		for column, cell := range cells {
			used[column] = used[column] || cell != ""
		}
	}
	columns := slices.DeleteFunc(Columns(), func(column string) bool { return !used[column] })
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	for _, cells := range rows {
		record := make([]string, len(columns))
		for i, column := range columns {
			record[i] = cells[column]
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func poolCells(pool *ipamv1alpha1.IPPool) map[string]string {
	return withFields(map[string]string{columnKind: kindPool, columnName: pool.Name, columnCIDR: string(pool.Spec.CIDR)},
		slices.Concat(field.OfPool(pool), field.OfAll(&pool.ObjectMeta)))
}

func claimCells(claim *ipamv1alpha1.IPClaim) map[string]string {
	cells := map[string]string{columnKind: kindClaim, columnName: claim.Name, columnNamespace: claim.Namespace, columnCIDR: claim.Spec.Address}
	if ref := claim.Spec.PoolRef; ref != nil {
		cells[columnPool] = ref.Name
		if ref.ProjectRef != nil {
			cells[columnWorkspace] = ref.ProjectRef.Name
		}
	}
	return withFields(cells, slices.Concat(field.OfClaim(claim), field.OfAll(&claim.ObjectMeta)))
}

// withFields adds a cell for each field.
func withFields(cells map[string]string, fields []field.Field) map[string]string {
	for _, f := range fields {
		cells[f.Column()] = f.Cell()
	}
	return cells
}
