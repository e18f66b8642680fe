package recover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/resolve"
)

// told limits how many records one pass names in the log as not adopted.
const told = 20

var (
	errOthers error = unbelieved("others hold these addresses, and no record says that the claim has them")
	errOrphan error = unbelieved("the claim's workspace is bound nowhere, " +
		"and no record says that the claim has the block")
	errStranger error = unbelieved("the pool does not admit the claim's workspace, " +
		"and no record says that the claim has the block")
	errUnnamed = errors.New("the workspace of a claim without a record is not known yet, " +
		"so that it is not certain whether the pool admits it")
	errUnranged error = unbelieved("the pool is not the one that the claim's class has for its scope, " +
		"or another claim holds it")
	errUnclassed error = unbelieved("the class of the claim is gone, so that nobody knows whom it admits, " +
		"and no record says that the claim has the block")
	errBarred error = unbelieved("the class does not admit the claim's workspace, or serves none of the pool, " +
		"and no record says that the claim has the block")
)

// unbelieved is a final reason not to adopt the block that a claim shows: no later pass adopts it either.
type unbelieved string

// Error implements error.
func (u unbelieved) Error() string { return string(u) }

// promised keeps a claim for believe if the ledger still lacks the claim's block after the IPAllocations were adopted,
// or lacks the claim's range, which has no IPAllocation.
func (w *world) promised(ctx context.Context, r record) error {
	if !r.lacks() {
		return nil
	}
	if !r.ranged { // its IPAllocation may have been adopted since the audit
		if _, ok, err := w.Ledger.Lookup(ctx, r.request.Holder.Claim); ok || err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone = append(w.alone, r)
	return nil
}

// believe adopts the blocks and ranges of claims that have no IPAllocation, the oldest claim first. Such a claim was
// bound shortly before the loss, or its status was forged, past webhooks and policies. So believe adopts only from a
// pool that admits the claim's workspace, and only addresses that nobody has.
func (w *world) believe(ctx context.Context) error {
	slices.SortFunc(w.alone, older)
	alone := w.alone
	w.alone = nil
	for _, r := range alone {
		if r.of.stuck != nil {
			continue // perhaps for an older claim, which has precedence
		}
		err := w.takeAlone(ctx, r)
		if _, never := errors.AsType[unbelieved](err); never || errors.Is(err, ledger.ErrOutOfRange) {
			w.leave(ctx, r, err)
			continue
		}
		if err := w.stick(r.of, err); err != nil {
			return err
		}
	}
	return nil
}

// takeAlone adopts the block or range that a claim shows, or returns why it does not.
func (w *world) takeAlone(ctx context.Context, r record) (err error) {
	if err = w.entitled(ctx, r); err != nil {
		return err
	}
	if r.ranged {
		return w.hold(ctx, r)
	}
	if r, err = w.vacant(ctx, r); err != nil {
		return err
	}
	return w.place(ctx, r)
}

// vacant returns the record with the pool to which its block belongs: the record's pool, or an address space of that
// pool. It returns errOthers if a block that is not cooling overlaps the prefix.
func (a *Adopter) vacant(ctx context.Context, r record) (record, error) {
	scope, err := a.unique(ctx, r)
	if err != nil {
		return r, err
	}
	r = r.within(scope)
	blocks, err := a.Ledger.Pools().Overlapping(ctx, r.request.Pool, r.request.Exact)
	if err == nil && slices.ContainsFunc(blocks, func(b ledger.Block) bool { return b.State != ledger.Cooling }) {
		err = errOthers
	}
	return r, err
}

// hold gives a claim the range that it shows. If two claims show one range, the older claim gets it, and verify reports
// the other claim. A restored ledger may have the range for a claim that is gone. Then the range passes to this claim.
// If the pool drains, hold fails, so that another pass follows. That pass may find the pool open, or retired and made
// again.
func (a *Adopter) hold(ctx context.Context, r record) error {
	if r.of.derived == nil || r.of.cidr != r.request.Exact {
		return errUnranged
	}
	_, err := a.Ledger.Derived().Hold(ctx, r.of.id, r.request.Holder)
	if held, other := errors.AsType[*ledger.HeldError](err); other {
		answer, readErr := a.Record.Holder(ctx, held.By)
		switch {
		case readErr != nil:
			return readErr
		case answer.Verdict != live.Gone:
			return errors.Join(errUnranged, err)
		}
		if err := a.Ledger.Derived().Drop(ctx, r.of.id, held.By.Claim, time.Time{}); err != nil {
			return err
		}
		_, err = a.Ledger.Derived().Hold(ctx, r.of.id, r.request.Holder)
	}
	if err != nil {
		return fmt.Errorf("give range %s to claim %s/%s: %w", r.text, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return nil
}

// unique returns the part of a claim's scope within which the claim's block is unique. The class names the roles of
// that part in uniqueWithin, which is immutable. If the class was deleted, the address spaces of the pool show these
// roles. If the pool has no address spaces either, unique returns nil, and the block is adopted into the pool itself. A
// pool that has a block of its own gets no address space later, which could give the same addresses again.
func (a *Adopter) unique(ctx context.Context, r record) (ipamv1alpha1.Scope, error) {
	if len(r.scope) == 0 || r.request.Class == "" {
		return nil, nil
	}
	class, err := a.class(ctx, r.request.Class)
	spaces := a.Ledger.Derived().Spaces(r.request.Pool)
	switch {
	case err == nil:
		return r.scope.Only(class.Spec.UniqueWithin), nil
	case errors.Is(err, errUnclassed) && len(spaces) > 0:
		return r.scope.Only(slices.Collect(maps.Keys(spaces[0].Derived.Scope))), nil
	case errors.Is(err, errUnclassed):
		return nil, nil
	}
	return nil, err
}

// class reads a class from the cache.
func (a *Adopter) class(ctx context.Context, name string) (*ipamv1alpha1.IPClass, error) {
	platform, err := a.Clusters.GetCluster(ctx, a.Directory.Engaged(a.Directory.Platform().Cluster))
	if err != nil {
		return nil, err
	}
	class := &ipamv1alpha1.IPClass{}
	if err := platform.GetCache().Get(ctx, client.ObjectKey{Name: name}, class); apierrors.IsNotFound(err) {
		return nil, errUnclassed
	} else if err != nil {
		return nil, fmt.Errorf("read class %s: %w", name, err)
	}
	return class, nil
}

// unnamed maps each workspace whose path is unknown to the time when a pass first missed the path.
type unnamed map[ledger.ClusterName]time.Time

// forget removes the workspaces whose path is known. If a path becomes unknown again, its time starts again. An old
// time must not count then, because passes can follow each other for hours while a pool is stuck.
func (u unnamed) forget(known *directory.Directory) {
	maps.DeleteFunc(u, func(cluster ledger.ClusterName, _ time.Time) bool { return known.Workspace(cluster).Path != "" })
}

// hesitates reports whether the path of a workspace may still become known: it was first missed less than live.Absence
// ago. The first call for a workspace notes the time.
func (u unnamed) hesitates(cluster ledger.ClusterName, now time.Time) bool {
	first, ok := u[cluster]
	if !ok {
		first = now
		u[cluster] = first
	}
	return now.Sub(first) < live.Absence
}

// entitled returns nil if the pool and the class of a claim admit its workspace, and the workspace is bound. Otherwise
// it returns the reason. After a start the caches do not show all workspaces yet. So if the path of the workspace is
// not known, entitled returns errUnnamed as long as hesitates says that the path may still become known. Later such a
// workspace counts as a stranger, or as gone, because a tenant can hide its path for ever.
func (a *Adopter) entitled(ctx context.Context, r record) error {
	h := r.request.Holder
	from, why := a.Directory.Workspace(h.Cluster), errStranger
	if r.of.admits(from) {
		served, err := a.serves(ctx, r, from)
		if err != nil {
			return err
		}
		why = errBarred
		if served {
			answer, err := a.orphan(ctx, h)
			if err != nil || answer.Verdict != live.Unbound {
				return err
			}
			why = errOrphan
		}
	}
	if from.Path == "" && !a.Directory.Contests(h.Cluster) && a.unnamed.hesitates(h.Cluster, a.clock.Now()) {
		return &nameless{cluster: h.Cluster, error: errUnnamed}
	}
	return why
}

// serves reports whether the class of a claim lets the claim's workspace use the pool. An authored pool needs no class,
// except that a pool of visibility Platform serves other workspaces by class alone. A derived pool serves, within its
// scope, ranges of its own class, and blocks of the classes directly below that class. If the class is deleted, serves
// returns errUnclassed, except for a derived pool of the claim's own workspace.
func (a *Adopter) serves(ctx context.Context, r record, from directory.Workspace) (bool, error) {
	p := r.of
	own := p.owner.Cluster == from.Cluster
	if p.derived == nil && (own || p.object.Spec.Visibility != ipamv1alpha1.VisibilityPlatform) {
		return true, nil
	}
	if r.request.Class == "" || p.derived != nil && !p.hasScope(r.scope) {
		return false, nil
	}
	class, err := a.class(ctx, r.request.Class)
	switch {
	case own && errors.Is(err, errUnclassed):
		return !r.ranged || r.request.Class == p.derived.Class, nil
	case err != nil:
		return false, err
	case p.derived == nil:
	case r.ranged && class.Name != p.derived.Class, !r.ranged && class.Spec.ParentClassName != p.derived.Class:
		return false, nil
	}
	return resolve.Query{From: from, Platform: a.Directory.Platform()}.MayUse(class), nil
}

// orphan returns the verdict Unbound if a claim or IPAllocation is left over from a workspace that is bound nowhere.
// kcp's wildcard lists select objects by the identity of the export. If an object was stored while its workspace was
// being unbound, the lists show it for ever.
func (a *Adopter) orphan(ctx context.Context, h ledger.Holder) (live.Answer, error) {
	if a.Directory.Workspace(h.Cluster).Path != "" || a.Directory.Contests(h.Cluster) {
		return live.Answer{}, nil
	}
	answer, err := a.Record.Holder(ctx, h)
	if err != nil {
		return live.Answer{}, fmt.Errorf("look for the workspace %s of claim %s/%s: %w", h.Cluster, h.Namespace, h.Name, err)
	}
	return answer, nil
}

// errUnplaced: no pool is found that has the block.
var errUnplaced = errors.New("no workspace shows a pool of this path and name that has these addresses")

// leave logs and counts a record that is not adopted. An IPAllocation names a pool of another workspace by the path of
// that workspace, and the path may have changed since. So leave keeps such an IPAllocation, if no pool is found for it,
// for doubted, which keeps frozen the lost pools that the IPAllocation may name. A claim keeps no pool frozen, because
// a tenant can write any status.
func (w *world) leave(ctx context.Context, r record, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.claimed && r.pool.ProjectRef != nil && errors.Is(why, errUnplaced) {
		w.unplaced = append(w.unplaced, r)
	}
	w.left++
	if w.left > told {
		return
	}
	h := r.request.Holder
	log.FromContext(ctx).Error(why, "a record is not adopted", "cluster", h.Cluster, "claim", h.Namespace+"/"+h.Name,
		"pool", pathOf(r.pool)+r.pool.Name, "prefix", r.text)
}

// doubted keeps frozen each lost pool that an unplaced IPAllocation may name: the pool has the name in the
// IPAllocation, and a CIDR that overlaps the block. An IPAllocation of a workspace that is bound nowhere keeps no pool
// frozen, because nobody can delete it.
func (w *world) doubted(ctx context.Context) error {
	asked := map[ledger.ClusterName]live.Answer{}
	for _, r := range w.unplaced {
		h := r.request.Holder
		answer, known := asked[h.Cluster]
		if !known {
			var err error
			if answer, err = w.orphan(ctx, h); err != nil {
				return err
			}
			asked[h.Cluster] = answer
		}
		if w.missed.Confirm(h.Cluster, answer.Verdict, w.clock.Now()) && answer.Covers(r.request.Since) {
			continue
		}
		for _, p := range w.lost {
			if p.name == r.pool.Name && p.cidr.Overlaps(r.request.Exact) {
				path := r.pool.ProjectRef.Name
				why := fmt.Errorf("the record of claim %s/%s of workspace %s has %s of a pool of this name "+
					"in workspace %s, which none shows", h.Namespace, h.Name, h.Cluster, r.request.Exact, path)
				_ = w.stick(p, &nameless{path: path, error: why}) // a fault of this pool alone, which stick notes
			}
		}
	}
	return nil
}

func pathOf(ref ipamv1alpha1.PoolRef) string {
	if ref.ProjectRef == nil {
		return ""
	}
	return ref.ProjectRef.Name + ":"
}
