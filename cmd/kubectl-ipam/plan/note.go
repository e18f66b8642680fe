package plan

import (
	"encoding/json"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Note is the name and the description of an excluded block.
type Note struct {
	CIDR        ipamv1alpha1.CIDR `json:"cidr"`
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
}

// NotesOf returns the notes on blocks that a pool excludes. An annotation that cannot be read has none.
func NotesOf(pool *ipamv1alpha1.IPPool) []Note {
	var notes []Note
	if json.Unmarshal([]byte(pool.Annotations[ipamv1alpha1.AnnotationExclusions]), &notes) != nil {
		return nil
	}
	return slices.DeleteFunc(notes, func(n Note) bool { return !slices.Contains(pool.Spec.ExcludedCIDRs, n.CIDR) })
}

// noted gives an object its notes; none removes them.
func noted(object metav1.Object, notes []Note) {
	annotations := object.GetAnnotations()
	if delete(annotations, ipamv1alpha1.AnnotationExclusions); len(notes) > 0 {
		if annotations == nil {
			annotations = map[string]string{}
		}
		text, _ := json.Marshal(notes) // which texts alone cannot fail
		annotations[ipamv1alpha1.AnnotationExclusions] = string(text)
	}
	object.SetAnnotations(annotations)
}

// kept returns the annotations of an object that a plan keeps.
func kept(object metav1.Object) map[string]string {
	var annotations map[string]string
	for _, name := range []string{ipamv1alpha1.AnnotationDescription, ipamv1alpha1.AnnotationExclusions} {
		if text := object.GetAnnotations()[name]; text != "" {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[name] = text
		}
	}
	return annotations
}

// apart returns a pool without the excluded blocks that have notes, and a row for each of those. A note that a table
// cannot say is left out, and its block stays with the pool.
func apart(pool *ipamv1alpha1.IPPool) (rest *ipamv1alpha1.IPPool, rows []map[string]string, left []string) {
	rest = pool.DeepCopy()
	noted(rest, nil)
	for _, note := range NotesOf(pool) {
		cells := map[string]string{
			columnKind: kindExclusion, columnName: note.Name, columnCIDR: string(note.CIDR), columnPool: pool.Name, columnDescription: note.Description,
		}
		if legible.Cell(note.Name) != note.Name || legible.Cell(note.Description) != note.Description {
			left = append(left, "name and description of exclusion "+string(note.CIDR))
			continue
		}
		rest.Spec.ExcludedCIDRs = slices.DeleteFunc(rest.Spec.ExcludedCIDRs, func(cidr ipamv1alpha1.CIDR) bool { return cidr == note.CIDR })
		rows = append(rows, cells)
	}
	return rest, rows, left
}
