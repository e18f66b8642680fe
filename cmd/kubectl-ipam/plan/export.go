package plan

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Of returns the plan of a workspace. It has the pools, and for each bound claim a claim for exactly its block. A pool
// that is carved from another one asks for exactly its block. left has what a plan cannot describe, with the reasons.
func Of(pools []ipamv1alpha1.IPPool, claims []ipamv1alpha1.IPClaim) (p *Plan, left []string) {
	p = &Plan{}
	without, ranges := map[string]bool{}, rangesOf(pools, claims)
	for i := range pools {
		pool := &pools[i]
		switch why := unsaid(pool); {
		case why == "":
			p.Pools = append(p.Pools, Pool{IPPool: exportedPool(pool)})
		case !ranges.held(pool.Name):
			without[pool.Name] = true
			left = append(left, fmt.Sprintf("pool %s: %s", pool.Name, why))
		}
	}
	for i := range claims {
		claim := &claims[i]
		name := claim.Namespace + "/" + claim.Name
		from := claim.Status.PoolRef
		switch bound := meta.IsStatusConditionTrue(claim.Status.Conditions, ipamv1alpha1.ConditionAllocated); {
		case !bound || claim.Status.AllocatedCIDR == "" || from == nil:
			left = append(left, fmt.Sprintf("claim %s: it waits, and holds no block", name))
		case from.ProjectRef == nil && without[from.Name]:
			left = append(left, fmt.Sprintf("claim %s: its pool %s is left out", name, from.Name))
		default:
			p.Claims = append(p.Claims, Claim{IPClaim: exportedClaim(claim)})
		}
	}
	slices.SortFunc(p.Pools, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Claims, func(a, b Claim) int { return strings.Compare(a.name(), b.name()) })
	return p, left
}

// unsaid says why a pool is not in a plan; empty: it is.
func unsaid(pool *ipamv1alpha1.IPPool) string {
	switch {
	case pool.Spec.ClassRef != nil:
		return "the system made it for the claims of class " + pool.Spec.ClassRef.Name +
			", and makes it again with the first of them, perhaps elsewhere: a claim with the target range holds it, " +
			"and brings it back"
	case pool.Labels[ipamv1alpha1.LabelSlice] != "":
		return "it is this workspace's slice of a pool of the platform, which gives each workspace one"
	case pool.Spec.Carved() && pool.Status.AllocatedCIDR == "":
		return "it waits, and has no block"
	}
	return ""
}

// exportedPool returns a pool as a plan describes it. If it is carved from another pool, it asks for the block that it
// has.
func exportedPool(pool *ipamv1alpha1.IPPool) *ipamv1alpha1.IPPool {
	exported := &ipamv1alpha1.IPPool{
		TypeMeta: typeOf("IPPool"), Spec: *pool.Spec.DeepCopy(),
		ObjectMeta: metav1.ObjectMeta{Name: pool.Name, Labels: pool.Labels, Annotations: kept(pool)},
	}
	if block, err := ParseBlock(string(pool.Spec.CIDR)); err == nil {
		exported.Spec.IPFamily = familyIn(pool.Spec.IPFamily, block)
	}
	if spec := &exported.Spec; spec.Carved() {
		spec.Address = cmp.Or(ipamv1alpha1.CIDR(pool.Status.AllocatedCIDR), spec.Address)
		if spec.Address != "" {
			spec.PrefixLength = 0
		}
	}
	setDefaults(exported)
	return exported
}

// blockOf returns the block of a pool of a plan: its CIDR, or the block that it asks for.
func blockOf(spec ipamv1alpha1.IPPoolSpec) ipamv1alpha1.CIDR { return cmp.Or(spec.CIDR, spec.Address) }

// Comparable returns the spec of a pool in a form in which pools can be compared: with the defaults of the server,
// without a family that follows from the CIDR, and with sorted lists.
func Comparable(pool *ipamv1alpha1.IPPool) ipamv1alpha1.IPPoolSpec {
	spec := exportedPool(pool).Spec
	slices.Sort(spec.ClassNames)
	slices.Sort(spec.Consumers)
	slices.Sort(spec.ExcludedCIDRs)
	return spec
}

// exportedClaim returns a claim as a plan describes it: it asks for the block that it holds, by the class or pool that
// it asked for. In place of a selector it names the pool that was found. It has no unmetPolicy.
func exportedClaim(claim *ipamv1alpha1.IPClaim) *ipamv1alpha1.IPClaim {
	exported := &ipamv1alpha1.IPClaim{
		TypeMeta: typeOf("IPClaim"),
		ObjectMeta: metav1.ObjectMeta{
			Name: claim.Name, Namespace: claim.Namespace, Labels: claim.Labels, Annotations: kept(claim),
		},
	}
	spec, asked := &exported.Spec, claim.Spec.DeepCopy()
	spec.ClassName, spec.PoolRef, spec.Scope = asked.ClassName, asked.PoolRef, asked.Scope
	switch {
	case asked.PoolSelector != nil:
		spec.PoolRef = claim.Status.PoolRef.DeepCopy()
	case asked.PoolRef == nil:
		spec.ClassName = claim.Status.ClassName // the default class, by its name
	}
	spec.ReclaimPolicy, spec.RetainedPolicy, spec.OwnerRef = asked.ReclaimPolicy, asked.RetainedPolicy, asked.OwnerRef
	if asked.Target == ipamv1alpha1.TargetScopeRange {
		spec.Target = asked.Target
	}
	spec.Address = claim.Status.AllocatedCIDR
	if block, err := ParseBlock(claim.Status.AllocatedCIDR); err == nil {
		spec.Address = addressOf(block)
	}
	return exported
}

// Note is the name and the description of a block that a pool excludes.
type Note struct {
	CIDR        ipamv1alpha1.CIDR `json:"cidr"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
}

// NotesOf returns the notes on the blocks that a pool excludes. It returns none if the annotation cannot be read.
func NotesOf(pool *ipamv1alpha1.IPPool) []Note {
	var notes []Note
	if json.Unmarshal([]byte(pool.Annotations[ipamv1alpha1.AnnotationExclusions]), &notes) != nil {
		return nil
	}
	return slices.DeleteFunc(notes, func(n Note) bool { return !slices.Contains(pool.Spec.ExcludedCIDRs, n.CIDR) })
}

// kept returns those annotations of an object that a plan keeps.
func kept(object metav1.Object) map[string]string {
	var of metav1.ObjectMeta
	for _, name := range []string{ipamv1alpha1.AnnotationDescription, ipamv1alpha1.AnnotationExclusions} {
		if text := object.GetAnnotations()[name]; text != "" {
			metav1.SetMetaDataAnnotation(&of, name, text)
		}
	}
	return of.Annotations
}

// apart returns a pool without the excluded blocks that have notes, and a row for each of these blocks. If a table
// cannot write a note, the note is left out, and the block stays with the pool.
func apart(pool *ipamv1alpha1.IPPool) (rest *ipamv1alpha1.IPPool, rows []map[string]string, left []string) {
	rest = pool.DeepCopy()
	delete(rest.Annotations, ipamv1alpha1.AnnotationExclusions)
	for _, note := range NotesOf(pool) {
		cells := map[string]string{
			columnKind: kindExclusion, columnName: note.Name, columnCIDR: string(note.CIDR), columnPool: pool.Name,
			columnDescription: note.Description,
		}
		if legible.Cell(note.Name) != note.Name || legible.Cell(note.Description) != note.Description {
			left = append(left, "name and description of exclusion "+string(note.CIDR))
			continue
		}
		rest.Spec.ExcludedCIDRs = slices.DeleteFunc(rest.Spec.ExcludedCIDRs, func(cidr ipamv1alpha1.CIDR) bool {
			return cidr == note.CIDR
		})
		rows = append(rows, cells)
	}
	return rest, rows, left
}

// List returns the plan as one object, for JSON.
func (p *Plan) List() any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": p.Objects()}
}

// Objects returns the pools and claims of the plan, as [ReadYAML] and kubectl apply read them.
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

// WriteCSV writes a plan as a table, with only the columns that it needs. It leaves out objects that a table cannot
// write, and returns their names: those with unprintable characters, with a text that a spreadsheet would take for a
// formula, or with an owner that has a slash in its name. If only the description cannot be written, it is left out
// alone.
func WriteCSV(w io.Writer, p *Plan) (left []string, _ error) {
	rows := make([]map[string]string, 0, len(p.Pools)+len(p.Claims))
	add := func(name string, cells map[string]string, wanted metav1.Object) {
		same := func() bool {
			wanted.SetAnnotations(nil)
			if text := cells[columnDescription]; text != "" {
				wanted.SetAnnotations(map[string]string{ipamv1alpha1.AnnotationDescription: text})
			}
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
		cells := map[string]string{columnKind: kindPool, columnName: rest.Name, columnCIDR: string(blockOf(rest.Spec))}
		cells[columnParentClass] = rest.Spec.ParentClassName
		if ref := rest.Spec.ParentPoolRef; ref != nil {
			cells[columnPool] = ref.Name
			if ref.ProjectRef != nil {
				cells[columnWorkspace] = ref.ProjectRef.Name
			}
		}
		fields := slices.Concat(field.OfPool(rest), field.OfAll(&rest.ObjectMeta))
		if add(kindPool+" "+pool.Name, withFields(cells, fields), rest); len(rows) > before {
			rows, left = append(rows, exclusions...), append(left, unsaid...)
		}
	}
	for _, claim := range p.Claims {
		add(kindClaim+" "+claim.name(), claimCells(claim.IPClaim), claim.DeepCopy())
	}
	return left, writeRows(w, rows)
}

// reread reads cells as a table with one row, and returns its objects. It returns none if a cell cannot be written.
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

// writeRows writes the columns kind, name and cidr, and each other column in which a row has a value.
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

func claimCells(claim *ipamv1alpha1.IPClaim) map[string]string {
	cells := map[string]string{
		columnKind: kindClaim, columnName: claim.Name, columnNamespace: claim.Namespace, columnCIDR: claim.Spec.Address,
	}
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
