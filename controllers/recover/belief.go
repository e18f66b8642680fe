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

// told is how many records that cannot be adopted are named in the log by one pass.
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

// unbelieved is why the block which a claim shows is not adopted, now or ever.
type unbelieved string

// Error implements error.
func (u unbelieved) Error() string { return string(u) }

// promised notes a claim for believe that has no block by its record. A range has no record.
func (w *world) promised(ctx context.Context, r record) error {
	if !r.lacks() {
		return nil
	}
	if !r.ranged { // by its record it may have got one since
		if _, ok, err := w.Ledger.Lookup(ctx, r.request.Holder.Claim); ok || err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alone = append(w.alone, r)
	return nil
}

// believe adopts what claims show without a record, one after the other, the oldest first. They were answered with that
// shortly before the loss. It may also be a status that was stored past all webhooks and policies, so
// it is believed only of a pool that admits the workspace, and takes no address that anybody has.
func (w *world) believe(ctx context.Context) error {
	slices.SortFunc(w.alone, older)
	alone := w.alone
	w.alone = nil
	for _, r := range alone {
		if r.of.stuck != nil {
			continue // an older claim may come first
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

// takeAlone gives a claim what it shows.
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

// vacant returns the record of a claim's block in the pool, or the address space, that it is of. It is an error if
// somebody has an address of the block.
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
// the other claim. A draining pool is an error: before the next pass it is opened, or retired and made again.
func (a *Adopter) hold(ctx context.Context, r record) error {
	if r.of.derived == nil || r.of.cidr != r.request.Exact {
		return errUnranged
	}
	_, err := a.Ledger.Derived().Hold(ctx, r.of.id, r.request.Holder)
	if _, other := errors.AsType[*ledger.HeldError](err); other {
		return errors.Join(errUnranged, err)
	}
	if err != nil {
		return fmt.Errorf("give range %s to claim %s/%s: %w", r.text, r.request.Holder.Namespace, r.request.Holder.Name, err)
	}
	return nil
}

// unique returns the part of a claim's scope within which its block is unique: by its class, which has not changed that
// since, or, if that is gone, by the address spaces that the pool has. A block that is put into the pool itself is
// given to nobody in an address space either, as a pool has one or the other.
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

// unnamed are the workspaces whose path was not known, and since when.
type unnamed map[ledger.ClusterName]time.Time

// forget removes the workspaces whose path is known. One that is missed again later has its time again: a pool that
// stays stuck makes passes follow each other for hours.
func (u unnamed) forget(known *directory.Directory) {
	maps.DeleteFunc(u, func(cluster ledger.ClusterName, _ time.Time) bool { return known.Workspace(cluster).Path != "" })
}

// hesitates reports whether the path of a workspace may come to be known, as it was missed first a short time ago.
func (u unnamed) hesitates(cluster ledger.ClusterName, now time.Time) bool {
	first, ok := u[cluster]
	if !ok {
		first = now
		u[cluster] = first
	}
	return now.Sub(first) < live.Absence
}

// entitled returns an error unless a pool admits the workspace of a claim, which is bound, and so does the class by
// which the claim was served. After a start the caches do not show all workspaces yet. So one whose path is not known
// is believed to be a stranger, or gone, after a while only: any tenant may hide its path.
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

// serves reports whether the workspace of a claim may have something of a pool, as far as that takes the claim's class.
// A pool that the system has made serves claims by its own class, or by those below, within its scope; one of the
// platform serves others by class alone. A class that is gone admits nobody. A pool that serves no other workspace,
// such as that of the claim's own network, serves without it.
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

// orphan asks whether a claim or record is left over from a workspace that is bound nowhere: then the verdict is
// Unbound. kcp's wildcard lists go by the identity of the export, and never lose an object that was stored while its
// workspace unbound.
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

// leave says that a record is not adopted. A pool of another workspace is named by that one's path, which may have
// changed since. So what an IPAllocation may have of a lost pool keeps that frozen: see doubted. The word of a claim
// alone keeps nothing frozen, as any tenant could write it.
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

// doubted keeps the lost pools frozen that unplaced records may have blocks of: those of the name that the record says,
// with the addresses. A record of a workspace that is bound nowhere keeps nothing frozen: nobody can delete it.
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
				_ = w.stick(p, &nameless{path: path, error: why}) // others are not stuck by that
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
