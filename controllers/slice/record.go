package slice

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// settle reads the record of a workspace whose slice the cache does not show, and updates it if the child that it names
// is gone. The result is zero if there is no record.
func (p *pass) settle(ctx context.Context) (ledger.Slice, error) {
	record, ok, err := p.Ledger.Slices.Get(ctx, ledger.PoolID(p.parent.UID), p.request.cluster)
	if err != nil || !ok {
		return ledger.Slice{}, err
	}
	carried := record.State == ledger.SliceGiven && record.Child != ""
	if p.cluster != nil && !carried {
		return record, nil
	}
	if err := p.confirm(ctx, record, carried); err != nil {
		return ledger.Slice{}, err
	}
	p.members.carry(p.request, "")
	if p.binding == nil || record.Binding != string(p.binding.UID) {
		return ledger.Slice{}, p.forfeit(ctx, record)
	}
	// The slice was deleted while its workspace is bound: it was given up.
	log.FromContext(ctx).Info("slice given up")
	record.State = ledger.SliceDeclined
	err = p.Ledger.Slices.Put(ctx, record, 0)
	p.wake(p.request.pool)
	return record, err
}

// confirm returns nil if the servers say that the child of a record is gone, or that its workspace is no longer bound,
// and the ledger has no block of the child.
func (p *pass) confirm(ctx context.Context, record ledger.Slice, carried bool) error {
	answer, err := p.Oracle.Holder(ctx, ledger.Holder{
		Claim: ledger.ClaimID(record.Child), Cluster: record.Cluster, Name: p.request.pool,
	})
	if err != nil {
		return fmt.Errorf("confirm that the slice of %s is gone: %w", record.Cluster, err)
	}
	if err := p.left(record, answer); err != nil {
		return err
	}
	if !carried {
		return nil
	}
	_, holds, err := p.Ledger.Blocks.Lookup(ctx, ledger.ClaimID(record.Child))
	if err != nil {
		return err
	}
	if holds {
		return errInUse
	}
	return nil
}

// left returns nil if the answer of the servers shows that the child of a record is gone, or that its workspace is no
// longer bound. If nobody saw the binding go, two such answers are needed, some time apart. If one were enough, a
// workspace that waits could lose its place, and could get a slice again that it has given up.
func (p *pass) left(record ledger.Slice, answer live.Answer) error {
	absent := p.absences.Confirm(record.Cluster, answer.Verdict, p.clock.Now())
	gone, unbound := answer.Verdict == live.Gone, answer.Verdict == live.Unbound
	switch {
	case answer.Verdict == live.Alive, gone && p.cluster == nil: // bound, and about to be engaged
		return errUnseen
	case gone, unbound && absent && answer.Covers(record.Since),
		(unbound || answer.Verdict == live.NoEndpoint) && p.Departed(record.Cluster):
		return nil
	}
	return errDoubt
}

// forfeit drops the record of a workspace, so that it no longer counts. The record of a slice that was given up stays
// as long as the workspace is bound.
func (p *pass) forfeit(ctx context.Context, record ledger.Slice) error {
	if record.State == "" || record.State == ledger.SliceDeclined && p.binding != nil {
		return nil
	}
	err := p.Ledger.Slices.Drop(ctx, record.Pool, record.Cluster)
	p.wake(p.request.pool)
	return err
}

// put writes the record of the workspace.
func (p *pass) put(ctx context.Context, state ledger.SliceState, child ledger.PoolID, limit int) error {
	err := p.Ledger.Slices.Put(ctx, ledger.Slice{
		Pool: ledger.PoolID(p.parent.UID), Cluster: p.request.cluster, Binding: string(p.binding.UID),
		Child: child, State: state, Since: p.binding.CreationTimestamp.Time,
	}, limit)
	if err == nil {
		p.members.carry(p.request, child)
	}
	return err
}

// give makes the slice of a workspace, unless all slices are given, or another workspace has waited longer.
func (p *pass) give(ctx context.Context) (state, error) {
	limit := int(p.parent.Spec.Slices.MaxSlices)
	err := allocator.ErrSlicesGiven
	if p.next() {
		err = p.put(ctx, ledger.SliceGiven, "", limit)
	}
	if errors.Is(err, allocator.ErrSlicesGiven) {
		return waiting, p.put(ctx, ledger.SliceWaiting, "", 0)
	}
	if err != nil {
		return settled, err
	}
	// From here on the slice counts. Other workspaces need not wait until its child is made.
	p.setState(unseen)
	child := p.carved()
	err = p.cluster.GetClient().Create(ctx, child)
	if apierrors.IsAlreadyExists(err) {
		return settled, errLags
	}
	if err != nil {
		return settled, fmt.Errorf("make the slice: %w", err)
	}
	log.FromContext(ctx).Info("slice given")
	return settled, p.put(ctx, ledger.SliceGiven, ledger.PoolID(child.UID), 0)
}

// next reports whether it is the workspace's turn. If not, it requeues the workspace whose turn it is.
func (p *pass) next() bool {
	first, since, ok := p.members.first(p.request.pool)
	if !ok || first == p.request.cluster || older(p.request.cluster, p.binding.CreationTimestamp.Time, first, since) {
		return true
	}
	p.wake(p.request.pool)
	return false
}

// carved returns the child pool that will be the slice.
func (p *pass) carved() *ipamv1alpha1.IPPool {
	return &ipamv1alpha1.IPPool{
		ObjectMeta: metav1.ObjectMeta{
			Name:   p.request.pool,
			Labels: map[string]string{ipamv1alpha1.LabelSlice: string(p.parent.UID)},
		},
		Spec: ipamv1alpha1.IPPoolSpec{
			ParentPoolRef: &ipamv1alpha1.PoolRef{
				Name:       p.parent.Name,
				ProjectRef: &ipamv1alpha1.ProjectRef{Name: p.Directory.Platform().Path},
			},
			PrefixLength: p.parent.Spec.Slices.PrefixLength,
			Visibility:   ipamv1alpha1.VisibilityConsumer,
		},
	}
}

// recall deletes a slice that has no block, and may get none.
func (p *pass) recall(ctx context.Context) error {
	if p.binding != nil {
		// If the record still named the child, the deletion would look as if the workspace gave its slice up.
		if err := p.put(ctx, ledger.SliceGiven, "", 0); err != nil {
			return err
		}
	}
	err := p.cluster.GetClient().Delete(ctx, p.child, client.Preconditions{UID: &p.child.UID})
	return client.IgnoreNotFound(err)
}
