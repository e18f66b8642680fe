package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/kcp-ipam/ipam/allocator/internal/engine"
	"github.com/kcp-ipam/ipam/allocator/internal/space"
	"github.com/kcp-ipam/ipam/allocator/internal/store"
	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// Register adds a root pool to the ledger, and returns its record there. A pool that overlaps another root pool of its
// workspace is refused with *OverlapError, unless both name the same Space, and none has address spaces. If the space
// has as many pools as it may, the pool is refused with *CrowdedError.
//
// To register a pool again changes nothing, and returns its record. With another CIDR, space or cluster the pool is
// refused with ErrPoolMismatch. Exclusions count at the first registration only; see Exclude.
func (ps Pools) Register(ctx context.Context, p ledger.Pool) (ledger.Pool, error) {
	p, err := asRoot(p)
	if err != nil {
		return ledger.Pool{}, err
	}
	p.RegisteredAt = store.Stamped(ps.a.engine.Hooks.Now())
	for {
		s := ps.a.engine.Spaces.Enter(p.Space)
		s.Unlock()
		done, err := s.Do(ctx, engine.Op{Lane: p.Cluster, Alone: true, Plan: register{p}.plan})
		if err == nil {
			done.Pool.Excluded = slices.Clone(done.Pool.Excluded)
			return done.Pool, nil
		}
		if !errors.Is(err, engine.ErrGone) {
			return ledger.Pool{}, err
		}
	}
}

// asRoot checks a pool, and fills in the fields that may be left out.
func asRoot(p ledger.Pool) (ledger.Pool, error) {
	if p.Space == "" {
		p.Space = ledger.SpaceID(p.ID)
	}
	if err := errors.Join(
		ledger.CheckID("pool", p.ID), ledger.CheckID("cluster", p.Cluster), ledger.CheckID("space", p.Space),
	); err != nil {
		return ledger.Pool{}, err
	}
	if p.Parent != "" {
		return ledger.Pool{}, fmt.Errorf("%w: pool %s has a parent; carve it", ledger.ErrInvalid, p.Name)
	}
	if p.Derived != nil {
		return ledger.Pool{}, fmt.Errorf("%w: pool %s is not a root pool; see Derived", ledger.ErrInvalid, p.Name)
	}
	if !p.CIDR.IsValid() || p.CIDR != p.CIDR.Masked() {
		return ledger.Pool{}, fmt.Errorf("%w: %s is not a CIDR without host bits", ledger.ErrInvalid, p.CIDR)
	}
	excluded, err := exclusions(p, p.Excluded)
	p.Excluded, p.State = excluded, ledger.PoolOpen
	return p, err
}

// exclusions brings a list of exclusions into its canonical form.
func exclusions(p ledger.Pool, list []netip.Prefix) ([]netip.Prefix, error) {
	for _, x := range list {
		if !x.IsValid() || x != x.Masked() || !space.Contains(p.CIDR, x) {
			return nil, fmt.Errorf("%w: exclusion %s is not a CIDR inside %s", ledger.ErrInvalid, x, p.CIDR)
		}
	}
	list = slices.Clone(list)
	slices.SortFunc(list, ledger.ComparePrefixes)
	return slices.Compact(list), nil
}

// register plans a Register.
type register struct{ wanted ledger.Pool }

// plan registers the pool, unless the pools in memory rule it out.
func (r register) plan(v space.View) (engine.Plan, error) {
	if err := v.Table().Damaged().Err(); err != nil && !r.wanted.Frozen { // a frozen pool is restored: it existed before
		return engine.Plan{}, fmt.Errorf("a pool that cannot be read may overlap: %w", err)
	}
	if err := v.Table().Damaged()[v.Keys.Pool(r.wanted.ID)]; err != nil {
		return engine.Plan{}, err
	}
	if p, ok := v.Table().Find(r.wanted.ID); ok {
		known := p.Pool
		if own := v.Pool(known.ID); own != nil {
			known = own.Pool
		}
		return engine.Plan{Refusal: r.mismatch(known), Answer: engine.Answer{Pool: known}}, nil
	}
	if err := r.conflict(v, v.Table().RootsIn(r.wanted.Cluster)); err != nil {
		return engine.Refuse(err)
	}
	return engine.Plan{
		Answer:  engine.Answer{Pool: r.wanted},
		Changes: []store.Change{v.Keys.PutPool(r.wanted).At(0, engine.ErrMistaken)},
	}, nil
}

// mismatch refuses the pool if it differs from the pool with its ID in the ledger.
func (r register) mismatch(known ledger.Pool) error {
	same := known.CIDR == r.wanted.CIDR && known.Space == r.wanted.Space && known.Cluster == r.wanted.Cluster
	if same && known.Above() == "" {
		return nil
	}
	return fmt.Errorf("%w: as %s in space %s of cluster %s",
		ledger.ErrPoolMismatch, known.CIDR, known.Space, known.Cluster)
}

// conflict refuses the pool if it cannot be registered beside another one.
func (r register) conflict(v space.View, others map[ledger.PoolID]ledger.Pool) error {
	for _, p := range others {
		if p.CIDR.Overlaps(r.wanted.CIDR) && p.Space != r.wanted.Space {
			return &ledger.OverlapError{With: p}
		}
	}
	for _, p := range v.Pools() {
		if p.Cluster != r.wanted.Cluster {
			return fmt.Errorf("%w: space %s is that of a pool in cluster %s", ledger.ErrPoolMismatch, v.Space(), p.Cluster)
		}
		if v.Table().Spaced(p.ID) && p.CIDR.Overlaps(r.wanted.CIDR) {
			return &ledger.OverlapError{With: p.Pool}
		}
	}
	if len(v.Pools()) >= ledger.MaxSpacePools && !r.wanted.Frozen { // a frozen pool is restored: it existed before
		return &ledger.CrowdedError{Space: v.Space()}
	}
	return nil
}
