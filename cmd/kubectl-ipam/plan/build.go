package plan

import (
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// The kinds of rows.
const (
	kindPool      = "pool"
	kindClaim     = "claim"
	kindExclusion = "exclusion"
)

// builder makes a plan of rows.
type builder struct {
	plan      *Plan
	problems  *problems
	namespace string
	// exclusions are rows whose pool may come after them.
	exclusions []exclusion
}

// exclusion is a block or a range that a pool excludes, as the file has it.
type exclusion struct {
	line   int
	text   string
	pool   string // empty: the pool that contains it
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
		b.plan.incomplete = true
		r.wrong(columnKind, "it is empty: write pool, claim or exclusion, or give --default kind=claim for all rows without one")
		return
	default:
		b.plan.incomplete = true
		r.wrong(columnKind, "%s is none of its words: write pool, claim or exclusion", quoted(kind))
		return
	}
	r.unread(kind)
}

func (b *builder) pool(r row) {
	block, ok := r.block()
	pool := &ipamv1alpha1.IPPool{ObjectMeta: metav1.ObjectMeta{Name: r.text(columnName), Labels: r.labels(), Annotations: described(r.text(columnDescription))}}
	pool.TypeMeta = typeOf("IPPool")
	spec := &pool.Spec
	spec.CIDR, spec.AddressDomain, spec.Gateway = ipamv1alpha1.CIDR(block), r.text(columnDomain), r.text(columnGateway)
	spec.Scope = r.scope()
	spec.ClassNames, spec.Consumers = r.words(columnClass), texts[ipamv1alpha1.Consumer](r.words(columnConsumers))
	spec.Visibility = oneOf(r, columnVisibility, ipamv1alpha1.VisibilityConsumer, ipamv1alpha1.VisibilityShared, ipamv1alpha1.VisibilityPlatform)
	spec.NetworkPrefixLength = r.length(columnNetworkLength)
	spec.Allocation.MinPrefixLength, spec.Allocation.MaxPrefixLength = r.length(columnMinLength), r.length(columnMaxLength)
	spec.Allocation.Strategy = oneOf(r, columnStrategy, strategies()...)
	spec.MaxPerConsumer = ipamv1alpha1.AddressCount(r.text(columnMaxPerConsumer))
	spec.ReleaseCooldown, spec.MaxRetentionLease = ipamv1alpha1.Duration(r.text(columnCooldown)), ipamv1alpha1.Duration(r.text(columnMaxLease))
	edges := ipamv1alpha1.PoolReservations{Leading: r.number(columnLeading), Trailing: r.number(columnTrailing), UnitPrefixLength: r.length(columnUnitLength)}
	if edges != (ipamv1alpha1.PoolReservations{}) {
		spec.Reservations = &edges
	}
	slices := ipamv1alpha1.PoolSlices{PrefixLength: r.length(columnSliceLength), MaxSlices: r.number(columnMaxSlices)}
	if slices != (ipamv1alpha1.PoolSlices{}) {
		spec.Slices = &slices
	}
	for _, word := range r.ranges(columnExclude) {
		blocks, err := excluded(word)
		if err != nil {
			r.wrong(columnExclude, "%s", err)
			continue
		}
		b.exclusions = append(b.exclusions, exclusion{r.line, word, pool.Name, blocks, Note{}})
	}
	if !ok {
		b.plan.incomplete = true
		return
	}
	if pool.Name == "" {
		pool.Name = nameOfBlock(netip.MustParsePrefix(block))
	}
	setDefaults(pool)
	b.plan.Pools = append(b.plan.Pools, Pool{Line: r.line, IPPool: pool, excludedBy: map[ipamv1alpha1.CIDR]exclusion{}})
}

// setDefaults gives a pool what the server gives it, so that the two can be compared.
func setDefaults(pool *ipamv1alpha1.IPPool) {
	if pool.Spec.Visibility == "" {
		pool.Spec.Visibility = ipamv1alpha1.VisibilityConsumer
	}
	if pool.Spec.Allocation.Strategy == "" {
		pool.Spec.Allocation.Strategy = ipamv1alpha1.FirstFit
	}
}

func (b *builder) claim(r row) {
	// The address of a host, with the length of its network or without.
	host, _, _ := strings.Cut(r.text(columnHost), "/")
	if host != "" && r.text(columnCIDR) == "" {
		r.cells[columnCIDR] = host
	}
	block, ok := r.block()
	if at, err := ParseBlock(host); ok && host != "" && (err != nil || at.String() != block) {
		r.wrong(columnHost, "%s is not %s: leave host or cidr empty", r.text(columnHost), r.text(columnCIDR))
	}
	claim := &ipamv1alpha1.IPClaim{ObjectMeta: metav1.ObjectMeta{
		Name: r.text(columnName), Namespace: r.text(columnNamespace), Labels: r.labels(), Annotations: described(r.text(columnDescription)),
	}}
	claim.TypeMeta = typeOf("IPClaim")
	if claim.Namespace == "" {
		claim.Namespace = b.namespace
	}
	spec := &claim.Spec
	spec.ClassName, spec.Scope = r.text(columnClass), r.scope()
	if pool := r.text(columnPool); pool != "" {
		spec.PoolRef = &ipamv1alpha1.PoolRef{Name: pool}
	}
	if workspace := r.text(columnWorkspace); workspace != "" && spec.PoolRef != nil {
		spec.PoolRef.ProjectRef = &ipamv1alpha1.ProjectRef{Name: workspace}
	} else if workspace != "" {
		r.wrong(columnWorkspace, "it is the workspace of a pool: give the pool as well")
	}
	spec.ReclaimPolicy = oneOf(r, columnReclaim, ipamv1alpha1.ReclaimDelete, ipamv1alpha1.ReclaimRetain)
	spec.RetainedPolicy = oneOf(r, columnRetained, ipamv1alpha1.RetainedWait, ipamv1alpha1.RetainedReuse)
	spec.OwnerRef = r.owner()
	if !ok {
		return
	}
	prefix := netip.MustParsePrefix(block)
	spec.Address = addressOf(prefix)
	if claim.Name == "" {
		claim.Name = nameOfBlock(prefix)
	}
	b.plan.Claims = append(b.plan.Claims, Claim{r.line, claim})
}

func (r row) owner() *ipamv1alpha1.OwnerRef {
	text, uid := r.text(columnOwner), r.text(columnOwnerUID)
	if text == "" {
		if uid != "" {
			r.wrong(columnOwnerUID, "it is the UID of an owner: give the owner as well")
		}
		return nil
	}
	ref, ok := ParseOwner(text)
	if !ok {
		r.wrong(columnOwner, "%s is no object: write KIND/NAMESPACE/NAME, or KIND/NAME for a kind without namespaces", quoted(text))
		return nil
	}
	ref.UID = types.UID(uid)
	return ref
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
		blocks, err = []netip.Prefix{netip.MustParsePrefix(block)}, nil
	}
	if err != nil {
		r.wrong(columnCIDR, "%s", err)
		return
	}
	b.exclusions = append(b.exclusions, exclusion{r.line, text, pool, blocks, note})
}

// exclude adds the exclusions to their pools.
func (b *builder) exclude() {
	pools := b.plan.index()
	for _, e := range b.exclusions {
		for _, block := range e.blocks {
			pool, ok := pools.find(e.pool, block)
			if !ok {
				b.unplaced(e, block)
				break
			}
			cidr := ipamv1alpha1.CIDR(block.String())
			if !slices.Contains(pool.Spec.ExcludedCIDRs, cidr) {
				pool.Spec.ExcludedCIDRs = append(pool.Spec.ExcludedCIDRs, cidr)
				pool.excludedBy[cidr] = e
			}
			if note := e.note; note != (Note{}) {
				note.CIDR = cidr
				noted(pool.IPPool, append(NotesOf(pool.IPPool), note))
			}
		}
	}
}

// unplaced reports an exclusion whose block is in no pool.
func (b *builder) unplaced(e exclusion, block netip.Prefix) {
	switch {
	case b.plan.incomplete: // may be the pool
	case e.pool != "":
		b.problems.add(e.line, "there is no pool %s in this plan: correct the name, or add a row for the pool", quoted(e.pool))
	case len(e.blocks) > 1:
		b.problems.add(e.line, "%s of the range %s is in no pool of this plan: end the range with the pool, add a row for the pool, or give its name", block, e.text)
	default:
		b.problems.add(e.line, "%s is in no pool of this plan: add a row for the pool, or give its name", e.text)
	}
}

// source gives each claim without pool and class the pool of the plan that contains it.
func (b *builder) source() {
	pools := b.plan.index()
	for _, claim := range b.plan.Claims {
		if claim.Spec.PoolRef != nil || claim.Spec.ClassName != "" || claim.Spec.PoolSelector != nil {
			continue
		}
		block, err := ParseBlock(claim.Spec.Address)
		if err != nil {
			continue // which is a problem by itself
		}
		if pool, ok := pools.find("", block); ok {
			claim.Spec.PoolRef = &ipamv1alpha1.PoolRef{Name: pool.Name}
		}
	}
}

// described are the annotations of an object with a description; nil without one.
func described(description string) map[string]string {
	if description == "" {
		return nil
	}
	return map[string]string{ipamv1alpha1.AnnotationDescription: description}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: ipamv1alpha1.GroupVersion.String(), Kind: kind}
}
