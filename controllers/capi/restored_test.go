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

// reach has the management cluster say that it has reached a revision.
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

// forgotten makes IPClaims whose IPAddressClaims the management cluster does not know, and returns those. The newest was
// made at a revision, the others before.
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

// kept reconciles claims, and counts those whose IPClaim stays.
func (s *scene) kept(claims []*capiv1.IPAddressClaim) int {
	kept := 0
	for _, claim := range claims {
		s.reconcile(claim)
		if s.has(s.Claims.Names.newClaim(claim)) {
			kept++
		}
	}
	return kept
}

// A management cluster that was restored from an older copy does not know newer IPAddressClaims, whose machines run.
// Nothing is given back until somebody says so, also after a restart, and when the cluster has come as far again.
func TestAbandoned_OfARestoredCluster(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(5, 150, time.Now().Add(-time.Hour))
	s.reach(148)
	if kept := s.kept(claims); kept != len(claims) {
		t.Errorf("%d of %d IPClaims are kept while the cluster is older than the newest; want all", kept, len(claims))
	}
	s.reach(1000)
	s.memory.compared, s.memory.backwards = false, false // as after a restart
	if kept := s.kept(claims); kept != len(claims) {
		t.Errorf("%d of %d IPClaims are kept after a restart; want all", kept, len(claims))
	}
	for _, claim := range claims {
		held := s.Claims.Names.newClaim(claim)
		if !s.has(held) {
			continue
		}
		held.Annotations[AnnotationAbandoned] = Release
		testbed.Update(t, s.Claims, held)
	}
	if kept := s.kept(claims); kept != 0 {
		t.Errorf("%d IPClaims are kept after somebody had them released; want none", kept)
	}
}

// watch shows the reconciler an IPAddressClaim, and then that it is gone: its deletion, or a list without it.
func (s *scene) watch(claim *capiv1.IPAddressClaim, missed bool) {
	watched := s.memory.watched()
	watched.Create(event.CreateEvent{Object: claim})
	watched.Delete(event.DeleteEvent{Object: claim, DeleteStateUnknown: missed})
}

// A management cluster that is restored under the controller, with a revision that was raised so that clients notice, shows no
// deletion of the objects that it has forgotten.
func TestAbandoned_NeedsADeletionThatWasSeen(t *testing.T) {
	s := beside(t, "one")
	s.memory.started = time.Now().Add(-time.Hour)
	claims := s.forgotten(2, 150, time.Now())
	s.reach(1_000_000_150)
	for _, claim := range claims {
		s.watch(claim, true)
	}
	if kept := s.kept(claims); kept != len(claims) {
		t.Errorf("%d of %d IPClaims are kept, though the cluster showed no deletion; want all", kept, len(claims))
	}
	for _, claim := range claims {
		if made := s.Claims.Names.newClaim(claim); !s.has(made) || made.Annotations[AnnotationAbandoned] != Held {
			t.Errorf("the annotations of the IPClaim are %v; want that it is held", made.Annotations)
		}
	}
}

// A reconcile may come before the event by which the IPAddressClaim went. Nothing is decided before.
func TestAbandoned_BeforeItsEvent(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(1, 150, time.Now())
	s.reach(1000)
	watched := s.memory.watched()
	watched.Create(event.CreateEvent{Object: claims[0]})
	made := s.Claims.Names.newClaim(claims[0])
	if s.kept(claims) != 1 || !s.has(made) || made.Annotations[AnnotationAbandoned] != "" {
		t.Errorf("before the event, the IPClaim has the annotations %v; want it kept, and not held", made.Annotations)
	}
	watched.Delete(event.DeleteEvent{Object: claims[0]})
	if s.kept(claims) != 0 {
		t.Error("the IPClaim is kept after its IPAddressClaim was seen deleted")
	}
}

// The IPClaims that the former leader made while this replica stood by are no other controller's: they are given back as those
// that went while the controller did not run.
func TestAbandoned_AStandbyTakesOver(t *testing.T) {
	s := beside(t, "one")
	claims := s.forgotten(few, 0, time.Now().Add(-time.Second)) // after the process was started
	s.reach(1000)
	if kept := s.kept(claims); kept != 0 {
		t.Errorf("%d of %d IPClaims of the former leader are kept; want none", kept, len(claims))
	}
}

// What went while the controller did not run is given back, if it is not much: a cluster that has forgotten many
// IPAddressClaims was restored, though its revision does not show it.
func TestAbandoned_ManyAtOnce(t *testing.T) {
	for count, want := range map[int]int{few: 0, 5 * few: 4 * few} {
		s := beside(t, "one")
		claims := s.forgotten(count, 0, time.Now().Add(-time.Hour))
		s.memory.started = time.Now()
		s.reach(1000)
		if kept := s.kept(claims); kept != want {
			t.Errorf("of %d IPClaims whose IPAddressClaims this process never saw %d are kept; want %d", count, kept, want)
		}
	}
}

// A creation time is in whole seconds, so that the IPClaim which the original makes right after a clone's controller
// has begun may look older than that.
func TestAbandoned_KeepsClaimsOfTheFirstSecond(t *testing.T) {
	s := beside(t, "one")
	now := time.Now()
	s.memory.started = now.Truncate(time.Second).Add(900 * time.Millisecond)
	s.reach(1000)
	if kept := s.kept(s.forgotten(1, 900, now.Truncate(time.Second))); kept != 1 {
		t.Error("an IPClaim of the second in which this process began is given back; want it kept")
	}
}

// An IPClaim that another controller made for the same management cluster is that of its original, or of a clone. One
// whose IPAddressClaim was seen, and then deleted, is given back, however many there are.
func TestAbandoned_OfAClone(t *testing.T) {
	s := beside(t, "one")
	s.memory.started = time.Now().Add(-time.Hour)
	s.reach(1000)
	claims := s.forgotten(5*few, 900, time.Now())
	theirs, own := claims[:1], claims[1:]
	for _, claim := range own {
		s.watch(claim, false)
	}
	if kept := s.kept(theirs); kept != 1 {
		t.Error("the IPClaim of an IPAddressClaim that this process never saw, made since it began, is given back")
	}
	if kept := s.kept(own); kept != 0 {
		t.Errorf("%d of %d IPClaims are kept whose IPAddressClaims were seen and deleted; want none", kept, len(own))
	}
	if s.kept(own); len(s.memory.fates) != 0 {
		t.Errorf("%d IPAddressClaims are remembered; want none", len(s.memory.fates))
	}
	made := s.Claims.Names.newClaim(theirs[0])
	if !s.has(made) || made.Annotations[AnnotationAbandoned] != Held {
		t.Errorf("the annotations of the IPClaim that is kept are %v; want that it is held", made.Annotations)
	}
}
