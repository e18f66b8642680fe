package claim

import (
	"context"
	"errors"
	"testing"
	"time"

	poll "k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/etcdtest"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/gen"
)

// A replica that does not lead gives no room where claims wait. That there is none it says as the
// leader does, so that the class can refuse the claim.
func TestAnswer_OnAStandbyBesideAWaiter(t *testing.T) {
	t.Parallel()
	class := gen.Class("internal", gen.DefaultLength(28), gen.Unmet(ipamv1alpha1.UnmetRefuse))
	pool := readyPool("p", "10.0.0.0/28", gen.Backs("internal"), gen.Visible(ipamv1alpha1.VisibilityPlatform))
	s := newScene(t, allocator.Options{}, []client.Object{class, pool})
	etcd := etcdtest.New(t)
	open := func() *allocator.Allocator {
		a, err := allocator.Open(t.Context(), etcd.Client(), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Close() })
		return a
	}
	leader, standby := open(), open()
	complete, ended := make(chan struct{}), make(chan struct{})
	close(complete)
	ctx, end := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		_ = leader.Lead(ctx, complete)
	}()
	t.Cleanup(func() { end(); <-ended })

	s.ledger, s.Reconciler.ledger, s.catalog.Rooms = leader, leader, leader
	s.register(pool)
	s.create(gen.Claim("half", gen.OfClass("internal"), gen.Length(29)))
	leader.Wait(allocator.Request{Pool: "uid-of-p", Length: 28, Holder: allocator.Holder{Claim: "w", Cluster: "other", Namespace: "default", Name: "w"}})

	s.ledger, s.Reconciler.ledger, s.catalog.Rooms = standby, standby, standby
	dry := door.Request{Cluster: "tenant", Claim: gen.Claim("small", gen.OfClass("internal"), gen.Length(29)), DryRun: true}
	err := poll.PollUntilContextCancel(t.Context(), time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := s.Answer(ctx, dry)
		return errors.Is(err, allocator.ErrOthersWait), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	answer := s.create(gen.Claim("large", gen.OfClass("internal")))
	if allocated := answer.Status.Conditions[0]; !answer.Refuse || allocated.Reason != string(ipamv1alpha1.ReasonPoolExhausted) {
		t.Errorf("answered %+v, want it refused with reason %s", answer, ipamv1alpha1.ReasonPoolExhausted)
	}
}
