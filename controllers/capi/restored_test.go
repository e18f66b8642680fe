package capi

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// reach makes the management cluster say that it has reached a revision.
func (s *scene) reach(revision int) {
	server := s.Management.Live
	s.Management.Live = interceptor.NewClient(s.Management.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			return server.Get(ctx, key, object, opts...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := server.List(ctx, list, opts...)
			if _, asked := list.(*capiv1.IPAddressClaimList); asked {
				list.SetResourceVersion(strconv.Itoa(revision))
			}
			return err
		},
	})
}

// forgotten makes IPClaims, and returns their IPAddressClaims, which the management cluster does not know. The newest
// IPClaim was made at this revision, the others before.
func (s *scene) forgotten(count, newest int, at time.Time) []*capiv1.IPAddressClaim {
	var claims []*capiv1.IPAddressClaim
	for i := range count {
		claim := machine(fmt.Sprintf("web-%d", i))
		claim.ResourceVersion = strconv.Itoa(max(newest-count+i+1, 1))
		made := s.Claims.Names.newClaim(claim)
		made.CreationTimestamp = metav1.NewTime(at)
		must.Do(s, s.Claims.Create(s.Context(), made))
		claims = append(claims, claim)
	}
	return claims
}

// keeps reconciles claims, and expects this number of their IPClaims to stay.
func (s *scene) keeps(when string, want int, claims []*capiv1.IPAddressClaim) {
	s.Helper()
	kept := 0
	for _, claim := range claims {
		s.reconcile(claim)
		if s.has(s.Claims.Names.newClaim(claim)) {
			kept++
		}
	}
	if kept != want {
		s.Errorf("%s: %d of %d IPClaims are kept; want %d", when, kept, len(claims), want)
	}
}

// wantHeld expects the IPClaim of a claim to be held, so that somebody has to decide about it.
func (s *scene) wantHeld(claim *capiv1.IPAddressClaim) {
	s.Helper()
	if made := s.Claims.Names.newClaim(claim); !s.has(made) || made.Annotations[AnnotationAbandoned] != Held {
		s.Errorf("the annotations of the IPClaim are %v; want that it is held", made.Annotations)
	}
}

// A management cluster that was restored from an older copy does not know newer IPAddressClaims, whose machines still
// run. Nothing is given back until somebody says so, even after a restart, and even once the cluster has reached the
// same revision again.
func TestAbandoned_HoldsIPClaimsOfARestoredCluster(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(5, 150, time.Now().Add(-time.Hour))
	s.reach(148)
	s.keeps("while the cluster is older than the newest", len(claims), claims)
	s.reach(1000)
	s.memory.compared, s.memory.backwards = false, false // as after a restart
	s.keeps("after a restart", len(claims), claims)
	for _, claim := range claims {
		held := s.Claims.Names.newClaim(claim)
		if !s.has(held) {
			continue
		}
		held.Annotations[AnnotationAbandoned] = Release
		testbed.Update(t, s.Claims, held)
	}
	s.keeps("after somebody had them released", 0, claims)
}

// watch shows the reconciler an IPAddressClaim, and then that it is gone: by its deletion, or, if missed is true, by a
// list without it.
func (s *scene) watch(claim *capiv1.IPAddressClaim, missed bool) {
	watched := s.memory.watched()
	watched.Create(event.CreateEvent{Object: claim})
	watched.Delete(event.DeleteEvent{Object: claim, DeleteStateUnknown: missed})
}

// If a management cluster is restored while the controller runs, and its revision was raised so that clients notice, it
// shows no deletion of the objects that it has forgotten.
func TestAbandoned_NeedsADeletionThatWasSeen(t *testing.T) {
	s := beside(t, "one")
	s.memory.started = time.Now().Add(-time.Hour)
	claims := s.forgotten(2, 150, time.Now())
	s.reach(1_000_000_150)
	for _, claim := range claims {
		s.watch(claim, true)
	}
	s.keeps("where the cluster showed no deletion", len(claims), claims)
	for _, claim := range claims {
		s.wantHeld(claim)
	}
}

// A reconcile may come before the event that shows the deletion of the IPAddressClaim. Until the event comes, nothing
// is decided.
func TestAbandoned_WaitsForTheEventOfTheDeletion(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(1, 150, time.Now())
	s.reach(1000)
	watched := s.memory.watched()
	watched.Create(event.CreateEvent{Object: claims[0]})
	s.keeps("before the event", 1, claims)
	if made := s.Claims.Names.newClaim(claims[0]); !s.has(made) || made.Annotations[AnnotationAbandoned] != "" {
		t.Errorf("before the event, the IPClaim has the annotations %v; want it not held", made.Annotations)
	}
	watched.Delete(event.DeleteEvent{Object: claims[0]})
	s.keeps("after the event", 0, claims)
}

// If the former leader made IPClaims while this replica stood by, these do not count as IPClaims of another controller.
// They are given back like those whose IPAddressClaims went while no controller ran.
func TestAbandoned_ReleasesClaimsOfTheFormerLeader(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(few, 0, time.Now().Add(-time.Second)) // after the process was started
	s.reach(1000)
	s.keeps("of the former leader", 0, claims)
}

// If IPAddressClaims went while no controller ran, their IPClaims are given back, if there are only a few: if many are
// gone, the cluster was restored, even if its revision does not show it.
func TestAbandoned_ReleasesAtMostAFewUnseenClaims(t *testing.T) {
	for count, want := range map[int]int{few: 0, 5 * few: 4 * few} {
		s := beside(t, "one")
		claims := s.forgotten(count, 0, time.Now().Add(-time.Hour))
		s.memory.started = time.Now()
		s.reach(1000)
		s.keeps("of IPAddressClaims that this process never saw", want, claims)
	}
}

// A creation time has whole seconds. So an IPClaim that the original cluster makes right after the controller of a
// clone has begun may look older than that.
func TestAbandoned_KeepsClaimsOfTheFirstSecond(t *testing.T) {
	s := beside(t, "one")
	now := time.Now()
	s.memory.started = now.Truncate(time.Second).Add(900 * time.Millisecond)
	s.reach(1000)
	s.keeps("of the second in which this process began", 1, s.forgotten(1, 900, now.Truncate(time.Second)))
}

// An IPClaim is held if it was made since this process began, and the process never saw its IPAddressClaim. Another
// controller of the same management cluster made it, as beside a clone. IPClaims whose IPAddressClaims were seen, and
// then seen deleted, are given back, even if these are many.
func TestAbandoned_HoldsIPClaimsThatAnotherControllerMade(t *testing.T) {
	s := beside(t, "one")
	s.memory.started = time.Now().Add(-time.Hour)
	s.reach(1000)
	claims := s.forgotten(5*few, 900, time.Now())
	theirs, own := claims[:1], claims[1:]
	for _, claim := range own {
		s.watch(claim, false)
	}
	s.keeps("of an IPAddressClaim that this process never saw, made since it began", 1, theirs)
	s.keeps("of IPAddressClaims that were seen and deleted", 0, own)
	if s.keeps("once more", 0, own); len(s.memory.fates) != 0 {
		t.Errorf("%d IPAddressClaims are remembered; want none", len(s.memory.fates))
	}
	s.wantHeld(theirs[0])
}
