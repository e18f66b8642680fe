package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/field"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/space"
)

// These are the kinds of rows.
const (
	kindPool      = "pool"
	kindClaim     = "claim"
	kindExclusion = "exclusion"
)

// builder makes a plan from rows.
type builder struct {
	plan      *Plan
	problems  *problems
	namespace string
	// exclusions are added to their pools at the end, as a pool may come after its exclusions in the file.
	exclusions []exclusion
}

// exclusion is a row or a cell of the file: a block or a range that a pool excludes.
type exclusion struct {
	line   int
	text   string
	pool   string // the name of the pool; empty: the pool that contains the block
	blocks []netip.Prefix
	note   Note // without a CIDR
}

func (b *builder) row(r row) {
	kind := strings.ToLower(r.text(columnKind))
	switch kind {
	case kindPool:
		b.pool(r)
	case kindClaim:
		b.claim(r)
	case kindExclusion:
		b.exclusion(r)
	case "":
		b.unread(r)
		r.wrong(columnKind,
			"it is empty: write pool, claim or exclusion, or give --default kind=claim for all rows without one")
		return
	default:
		b.unread(r)
		r.wrong(columnKind, "%s is none of its words: write pool, claim or exclusion", quoted(kind))
		return
	}
	r.unread(kind)
}

// unread notes a row of an unknown kind, as it may be a pool: by its block, if that can be read.
func (b *builder) unread(r row) {
	block, err := ParseBlock(r.text(columnCIDR))
	if err != nil {
		b.plan.incomplete = true
		return
	}
	b.plan.unread = append(b.plan.unread, block)
}

func (b *builder) pool(r row) {
	block, ok := r.block()
	pool := &ipamv1alpha1.IPPool{TypeMeta: typeOf("IPPool"), ObjectMeta: metav1.ObjectMeta{Name: r.text(columnName)}}
	if pool.Name == "" && ok {
		pool.Name = nameOfBlock(block) // exclusions refer to the pool by this name
	}
	for _, f := range field.OfPool(pool) {
		if f.Column() != field.Excluded {
			r.set([]field.Field{f})
			continue
		}
		for _, word := range r.ranges(f) {
			blocks, err := excluded(word)
			if err != nil {
				r.wrong(f.Column(), "%s", err)
				continue
			}
			b.exclusions = append(b.exclusions, exclusion{r.line, word, pool.Name, blocks, Note{}})
		}
	}
	r.set(field.OfAll(&pool.ObjectMeta))
	parent, workspace := r.text(columnPool), r.text(columnWorkspace)
	if pool.Spec.ParentClassName = r.text(columnParentClass); pool.Spec.ParentClassName != "" && parent != "" {
		r.wrong(columnParentClass, "a pool is carved from another pool or by a class: leave one of the cells empty")
	}
	if pool.Spec.ParentPoolRef = space.Ref(parent, workspace); parent == "" && workspace != "" {
		r.wrong(columnWorkspace, "it is the workspace of the pool that this one is carved from: give that pool as well")
	}
	if !ok {
		b.plan.incomplete = true
		return
	}
	setBlock(&pool.Spec, block)
	setDefaults(pool)
	b.plan.Pools = append(b.plan.Pools, Pool{r.line, pool, block})
}

// setBlock sets the block of a pool: as the CIDR of a root pool, or as the block that a child pool asks for.
func setBlock(spec *ipamv1alpha1.IPPoolSpec, block netip.Prefix) {
	if spec.Carved() {
		spec.Address = ipamv1alpha1.CIDR(block.String())
	} else {
		spec.CIDR = ipamv1alpha1.CIDR(block.String())
	}
}

// setDefaults sets the fields of a pool that the server would set, so that the pool can be compared with that of the
// server.
func setDefaults(pool *ipamv1alpha1.IPPool) {
	if pool.Spec.Visibility == "" {
		pool.Spec.Visibility = ipamv1alpha1.VisibilityConsumer
	}
	if pool.Spec.Allocation.Strategy == "" {
		pool.Spec.Allocation.Strategy = ipamv1alpha1.FirstFit
	}
}

func (b *builder) claim(r row) {
	// The address of a host may have the length of its network.
	host, _, _ := strings.Cut(r.text(columnHost), "/")
	if host != "" && r.text(columnCIDR) == "" {
		r.cells[columnCIDR] = host
	}
	block, ok := r.block()
	if at, err := ParseBlock(host); ok && host != "" && (err != nil || at != block) {
		r.wrong(columnHost, "%s is not %s: leave host or cidr empty", r.text(columnHost), r.text(columnCIDR))
	}
	claim := &ipamv1alpha1.IPClaim{TypeMeta: typeOf("IPClaim"), ObjectMeta: metav1.ObjectMeta{
		Name: r.text(columnName), Namespace: cmp.Or(r.text(columnNamespace), b.namespace),
	}}
	r.set(append(field.OfClaim(claim), field.OfAll(&claim.ObjectMeta)...))
	spec := &claim.Spec
	pool, workspace := r.text(columnPool), r.text(columnWorkspace)
	if spec.PoolRef = space.Ref(pool, workspace); pool == "" && workspace != "" {
		r.wrong(columnWorkspace, "it is the workspace of a pool: give the pool as well")
	}
	if spec.OwnerRef != nil && spec.OwnerRef.Kind == "" {
		r.wrong("owner-uid", "it is the UID of an owner: give the owner as well")
	}
	if !ok {
		return
	}
	spec.Address = addressOf(block)
	if claim.Name == "" {
		claim.Name = nameOfBlock(block)
	}
	b.plan.Claims = append(b.plan.Claims, Claim{r.line, claim, block})
}

func (b *builder) exclusion(r row) {
	note := Note{Name: r.text(columnName), Description: r.text(columnDescription)}
	text, pool := r.text(columnCIDR), r.text(columnPool)
	blocks, err := excluded(text)
	if length := r.text(columnLength); length != "" {
		block, ok := r.block()
		if !ok {
			return
		}
		blocks, err = []netip.Prefix{block}, nil
	}
	if err != nil {
		r.wrong(columnCIDR, "%s", err)
		return
	}
	b.exclusions = append(b.exclusions, exclusion{r.line, text, pool, blocks, note})
}

// exclude adds all exclusions to their pools.
func (b *builder) exclude() {
	pools := b.plan.index()
	for _, e := range b.exclusions {
		for _, block := range e.blocks {
			pool, ok := pools.find(e.pool, block)
			if !ok {
				b.unplaced(e, block)
				break
			}
			if !contains(pool.block, block) {
				b.problems.add(e.line, excludesOthers, pool.Name, pool.block, e.text)
				break
			}
			cidr := ipamv1alpha1.CIDR(block.String())
			if !slices.Contains(pool.Spec.ExcludedCIDRs, cidr) {
				pool.Spec.ExcludedCIDRs = append(pool.Spec.ExcludedCIDRs, cidr)
			}
			if note := e.note; note != (Note{}) {
				note.CIDR = cidr
				text, _ := json.Marshal(append(NotesOf(pool.IPPool), note)) // texts always marshal
				metav1.SetMetaDataAnnotation(&pool.ObjectMeta, ipamv1alpha1.AnnotationExclusions, string(text))
			}
		}
	}
}

// excludesOthers is the problem of a pool with an exclusion that is not inside the pool.
const excludesOthers = "pool %s (%s) excludes %s, which is not inside it: leave it out, or write the part inside"

// unplaced reports an exclusion whose block is in no pool.
func (b *builder) unplaced(e exclusion, block netip.Prefix) {
	switch {
	case b.plan.lacks(block), e.pool != "" && len(b.plan.unread) > 0: // the unread row may be the pool
	case e.pool != "":
		b.problems.add(e.line, "there is no pool %s in this plan: correct the name, or add a row for the pool",
			quoted(e.pool))
	case len(e.blocks) > 1:
		b.problems.add(e.line, "%s of the range %s is in no pool of this plan: "+
			"end the range with the pool, add a row for the pool, or give its name", block, e.text)
	default:
		b.problems.add(e.line, "%s is in no pool of this plan: add a row for the pool, or give its name", e.text)
	}
}

// source sets the pool of each claim that names no pool and no class: the pool of the plan that contains its block.
func (b *builder) source() {
	pools := b.plan.index()
	for _, claim := range b.plan.Claims {
		if claim.Spec.PoolRef != nil || claim.Spec.ClassName != "" || claim.Spec.PoolSelector != nil {
			continue
		}
		if pool, ok := pools.find("", claim.block); ok {
			claim.Spec.PoolRef = &ipamv1alpha1.PoolRef{Name: pool.Name}
		}
	}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: kind}
}

// row is a row of a table. It notes which cells were read: a cell that is not read for the row's kind is in the wrong
// column.
type row struct {
	line     int
	cells    map[string]string
	defaults map[string]string
	read     map[string]bool
	problems *problems
}

// text returns a cell or, if it is empty, the default of its column.
func (r row) text(column string) string {
	r.read[column] = true
	if cell := r.cells[column]; cell != "" {
		return cell
	}
	return r.defaults[column]
}

func (r row) wrong(column, format string, args ...any) {
	r.problems.add(r.line, "%s: %s", column, fmt.Sprintf(format, args...))
}

// dash matches the text between the two ends of a range.
var dash = regexp.MustCompile(`\s*[-–]\s*`)

// ranges returns the blocks and ranges in a cell. A range may have blanks inside.
func (r row) ranges(f field.Field) []string {
	return f.Words(dash.ReplaceAllString(r.text(f.Column()), "-"))
}

// set sets each field from its column.
func (r row) set(fields []field.Field) {
	for _, f := range fields {
		for _, word := range f.Words(r.text(f.Column())) {
			if err := f.Value.Set(word); err != nil {
				r.wrong(f.Column(), "%s is %v", quoted(word), err)
			}
		}
	}
}

// block reads the column cidr. If that has an address without a length, block adds the length from the column length.
func (r row) block() (_ netip.Prefix, ok bool) {
	text, length := r.text(columnCIDR), r.text(columnLength)
	if length != "" && text != "" && !strings.Contains(text, "/") {
		text += "/" + strings.TrimPrefix(length, "/")
	}
	prefix, err := ParseBlock(text)
	if err != nil {
		r.wrong(columnCIDR, "%s", err)
		return prefix, false
	}
	if length == "" {
		return prefix, true
	}
	n, err := field.ParseLength(length)
	if err != nil {
		r.wrong(columnLength, "%s is %v", quoted(length), err)
		return prefix, true
	}
	if int(n) != prefix.Bits() {
		r.wrong(columnLength, "%d is not the length of %s: correct one of them, or leave the length empty", n, prefix)
		return prefix, false
	}
	return prefix, true
}

// unread reports the cells that have no meaning for the row's kind.
func (r row) unread(kind string) {
	for _, column := range slices.Sorted(maps.Keys(r.cells)) {
		if r.cells[column] != "" && !r.read[column] {
			r.wrong(column, "it says nothing about a row of kind %s: leave the cell empty", kind)
		}
	}
}
