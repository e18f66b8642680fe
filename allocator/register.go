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

// Register adds a root pool to the ledger, and returns its record there. A pool that
// overlaps another root pool of its workspace is refused with *OverlapError, unless both name
// the same Space. One too many in a space is refused with *CrowdedError.
//
// To register a pool again changes nothing, and returns its record. With another CIDR, space
// or cluster it is refused with ErrPoolMismatch. Exclusions count at the first registration
// only; see Exclude.
func (a *Allocator) Register(ctx context.Context, p Pool) (Pool, error) {
	p, err := asRoot(p)
	if err != nil {
		return Pool{}, err
	}
	p.RegisteredAt = store.Stamped(a.engine.Hooks.Now())
	select {
	case a.registrar <- struct{}{}: // one at a time: they contend for the fence anyway
		defer func() { <-a.registrar }()
	case <-ctx.Done():
		return Pool{}, context.Cause(ctx)
	}
	for {
		r := &register{wanted: p}
		s := a.engine.Spaces.Enter(p.Space)
		s.Unlock()
		err := s.Do(ctx, r)
		if err == nil {
			r.pool.Excluded = slices.Clone(r.pool.Excluded)
			return r.pool, nil
		}
		if !errors.Is(err, engine.ErrGone) {
			return Pool{}, err
		}
	}
}

// asRoot checks a pool and fills in what may be left out.
func asRoot(p Pool) (Pool, error) {
	if p.Space == "" {
		p.Space = SpaceID(p.ID)
	}
	if err := errors.Join(ledger.CheckID("pool", p.ID), ledger.CheckID("cluster", p.Cluster), ledger.CheckID("space", p.Space)); err != nil {
		return Pool{}, err
	}
	if p.Parent != "" {
		return Pool{}, fmt.Errorf("%w: pool %s has a parent; carve it", ErrInvalid, p.Name)
	}
	if !p.CIDR.IsValid() || p.CIDR != p.CIDR.Masked() {
		return Pool{}, fmt.Errorf("%w: %s is not a CIDR without host bits", ErrInvalid, p.CIDR)
	}
	excluded, err := exclusions(p, p.Excluded)
	p.Excluded, p.State = excluded, PoolOpen
	return p, err
}

// exclusions brings a list of exclusions into its canonical form.
func exclusions(p Pool, list []netip.Prefix) ([]netip.Prefix, error) {
	for _, x := range list {
		if !x.IsValid() || x != x.Masked() || !space.Contains(p.CIDR, x) {
			return nil, fmt.Errorf("%w: exclusion %s is not a CIDR inside %s", ErrInvalid, x, p.CIDR)
		}
	}
	list = slices.Clone(list)
	slices.SortFunc(list, ledger.ComparePrefixes)
	return slices.Compact(list), nil
}

// register is the op of a Register.
type register struct {
	wanted Pool
	pool   Pool // as it is then in the ledger
	known  bool // the pools in memory decide it: nothing is written
	answer error
	fence  int64 // revision of the workspace's fence; 0: it has none
}

func (r *register) Cluster() ClusterName   { return r.wanted.Cluster }
func (r *register) Claim() (ClaimID, bool) { return "", false }

// Plan decides by the root pools in memory. The transaction confirms that no other
// has come or gone meanwhile.
func (r *register) Plan(s *engine.Worker) (engine.Share, error) {
	if err := s.Table.Damaged(); err != nil && !r.wanted.Frozen { // a frozen one was there before
		return engine.Share{}, fmt.Errorf("a pool that cannot be read may overlap: %w", err)
	}
	fenceKey, poolKey := s.Keys.Roots(r.wanted.Cluster), s.Keys.Pool(r.wanted.ID)
	r.fence = r.decide(s)
	unchanged := store.Cmps(store.At(fenceKey, r.fence))
	sh := engine.Share{
		Ifs:   slices.Clone(unchanged),
		Then:  store.Ops(store.Get(fenceKey)),
		Look:  []string{fenceKey},
		Fence: &engine.Fence{Key: fenceKey, Revision: r.fence, Same: unchanged, Value: store.EncodeFence()},
	}
	if r.known {
		return sh, nil
	}
	sh.Ifs = append(sh.Ifs, store.Absent(poolKey))
	sh.Then = store.Ops(store.Put(fenceKey, store.EncodeFence()), store.Put(poolKey, store.EncodePool(r.pool)))
	sh.Look = append(sh.Look, poolKey)
	return sh, nil
}

// decide decides by the other root pools of the workspace, and returns the revision of
// their fence.
func (r *register) decide(s *engine.Worker) int64 {
	r.pool, r.known, r.answer = r.wanted, false, nil
	others := s.Table.RootsIn(r.wanted.Cluster)
	if known, ok := others.Pools[r.wanted.ID]; ok {
		r.pool, r.known, r.answer = known, true, r.mismatch(known)
	} else if err := r.conflict(s, others); err != nil {
		r.known, r.answer = true, err
	}
	if p := s.Pool(r.wanted.ID); p != nil {
		r.pool = p.Pool
	}
	return others.Revision
}

// mismatch compares the pool with the one of that ID in the ledger.
func (r *register) mismatch(known Pool) error {
	if known.CIDR == r.wanted.CIDR && known.Space == r.wanted.Space && known.Cluster == r.wanted.Cluster && known.Parent == "" {
		return nil
	}
	return fmt.Errorf("%w: as %s in space %s of cluster %s", ErrPoolMismatch, known.CIDR, known.Space, known.Cluster)
}

// conflict refuses the pool if it cannot be registered beside another one.
func (r *register) conflict(s *engine.Worker, others space.Roots) error {
	for _, p := range others.Pools {
		if p.CIDR.Overlaps(r.wanted.CIDR) && p.Space != r.wanted.Space {
			return &OverlapError{With: p}
		}
	}
	for _, p := range s.Room.Pools {
		if p.Cluster != r.wanted.Cluster {
			return fmt.Errorf("%w: space %s is that of a pool in cluster %s", ErrPoolMismatch, s.ID, p.Cluster)
		}
	}
	if len(s.Room.Pools) >= MaxSpacePools && !r.wanted.Frozen { // a frozen one was there before
		return &CrowdedError{Space: s.ID}
	}
	return nil
}

func (r *register) Won(s *engine.Worker, revision int64, _ store.Results) error {
	if r.known {
		return r.answer
	}
	if revision > s.Known {
		s.PutPool(r.pool)
	}
	s.Table.Fenced(r.pool.Cluster, revision)
	return nil
}

// Lost plans the op again, unless a pool of another workspace has the ID, which the
// fence does not guard.
func (r *register) Lost(s *engine.Worker, why engine.Loss) error {
	if why.Kind == engine.Refuted && why.Got.Found(0) == nil {
		r.unfence(s)
	}
	kv := why.Got.Found(1)
	if kv == nil {
		return engine.ErrAgain
	}
	known, err := store.DecodePool(string(kv.Key), r.wanted.ID, kv.Value)
	if err == nil {
		err = r.mismatch(known)
	}
	if err != nil {
		return err
	}
	return engine.ErrAgain
}

// unfence forgets the fence of a workspace, which is not in the ledger any more. It may have been deleted
// while the watch had a gap. While memory has root pools of the workspace, it is the watch that lags.
func (r *register) unfence(s *engine.Worker) {
	if len(s.Table.RootsIn(r.wanted.Cluster).Pools) == 0 {
		s.Table.Unfenced(r.wanted.Cluster, r.fence)
	}
}
