package capi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// An IPAddress without an IPAddressClaim gets an IPClaim for its address, from the pool that it names.
func TestStray_IsClaimed(t *testing.T) {
	for what, tt := range map[string]struct{ address, want string }{
		"an address":                 {"192.0.2.7", "192.0.2.7"},
		"an address in another form": {"2001:DB8::0:7", "2001:db8::7"},
		"no address":                 {"192.0.2.0/24", ""},
	} {
		stray := elsewhere("stray")
		stray.Spec.PoolRef.Name = "no-such-pool"
		s := newScene(t, lab(), published(stray, tt.address))
		s.reconcile(stray)
		made := inPlace.newClaim(stray)
		if there := s.has(made); there != (tt.want != "") || made.Spec.Address != tt.want || there && made.Spec.PoolRef.Name != "no-such-pool" {
			t.Errorf("for %s an IPClaim is there: %t, and asks for %q; want it to ask for %q, from its own pool", what, there, made.Spec.Address, tt.want)
		}
	}
}

// A stray delays no IPAddressClaim that gets another address: neither a stray that cannot be claimed, because a quota
// forbids it or its IPClaim is held, nor one of another pool.
func TestStray_DelaysNoClaimWithAnotherAddress(t *testing.T) {
	for what, prepare := range map[string]func(*scene, *capiv1.IPAddressClaim){
		"forbidden": func(s *scene, stray *capiv1.IPAddressClaim) { s.forbid(stray.Namespace) },
		"held": func(s *scene, stray *capiv1.IPAddressClaim) {
			ended := inPlace.newClaim(stray)
			ended.Finalizers = append(ended.Finalizers, "example.com/others")
			must.Do(s, errors.Join(s.Claims.Create(s.Context(), ended), s.Claims.Delete(s.Context(), ended)))
		},
		"of another pool": func(s *scene, stray *capiv1.IPAddressClaim) {
			other := stray.DeepCopy()
			other.Name, other.Spec.PoolRef.Name = "other", "no-such-pool"
			must.Do(s, s.Management.Create(s.Context(), published(other, "192.0.2.9")))
		},
	} {
		t.Run(what, func(t *testing.T) {
			claim, stray := machine("web"), elsewhere("stray")
			s := newScene(t, lab(), claim, published(stray, "192.0.2.7"))
			prepare(s, stray)
			s.reconcile(claim)
			made := inPlace.newClaim(claim)
			if !s.has(made) {
				t.Fatalf("no IPClaim is made; the claim says %+v", s.ready(claim))
			}
			made.Status = bound(claim, "192.0.2.9").Status
			testbed.Update(t, s.Claims, made)
			if s.reconcile(claim); !s.has(published(claim, "")) {
				t.Errorf("no IPAddress is published; the claim says %+v", s.ready(claim))
			}
		})
	}
}

// refuses answers an IPClaim with a refusal.
func (s *scene) refuses(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) {
	s.Helper()
	claim.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: string(reason)}}
	testbed.Update(s, s.Claims, claim)
}

// An IPClaim that was given the address of a stray publishes nothing. It keeps the address until the IPClaim of the
// stray waits for it, and then gives way. The message names no other namespace.
func TestStray_GetsItsAddress(t *testing.T) {
	for what, tt := range map[string]struct {
		says      ipamv1alpha1.Reason // the answer to the IPClaim of the stray; empty: none yet
		forbidden bool
		mapped    bool // the stray writes its IPv4 address in IPv6 form
		yields    bool
	}{
		"waiting for the address": {says: ipamv1alpha1.ReasonAddressInUse, yields: true},
		"in IPv6 form":            {says: ipamv1alpha1.ReasonAddressInUse, mapped: true, yields: true},
		"not answered":            {},
		"over a limit":            {says: ipamv1alpha1.ReasonQuotaExceeded},
		"without IPClaim":         {forbidden: true},
	} {
		t.Run(what, func(t *testing.T) {
			claim, stray := machine("web"), elsewhere("restored")
			mine, theirs := bound(claim, "192.0.2.7"), inPlace.newClaim(stray)
			shown := published(stray, "192.0.2.7")
			if tt.mapped {
				shown.Spec.Address = "::ffff:192.0.2.7"
			}
			s := newScene(t, lab(), claim, mine, shown)
			if tt.forbidden {
				s.forbid(stray.Namespace)
			}
			s.reconcile(claim)
			if there := s.has(theirs); there == tt.forbidden || there && theirs.Spec.Address != "192.0.2.7" {
				t.Fatalf("the stray has an IPClaim: %t, for %q; want one for 192.0.2.7: %t", there, theirs.Spec.Address, !tt.forbidden)
			}
			if tt.says != "" {
				s.refuses(theirs, tt.says)
			}
			after := s.reconcile(claim).RequeueAfter
			if yielded := !s.has(mine); yielded != tt.yields || after == 0 {
				t.Errorf("the IPClaim gave way: %t, and is tried again after %s; want %t, and a time", yielded, after, tt.yields)
			}
			if s.has(published(claim, "")) {
				t.Error("the address was published twice")
			}
			if ready := s.ready(claim); ready.Reason != clusterv1.NotReadyReason || strings.Contains(ready.Message, "elsewhere") || !strings.Contains(ready.Message, "192.0.2.7 is the address of an IPAddress") {
				t.Errorf("the claim says %s: %s; want NotReady, and no other namespace", ready.Reason, ready.Message)
			}
		})
	}
}

// If a stray is forbidden to have an IPClaim, the claim that was given its address waits, and says why. It waits
// without end if an IPAddressClaim asks for the stray, as after a restore, and for an hour if none does.
func TestStray_KeepsItsAddressForAnHourUnlessClaimed(t *testing.T) {
	for what, tt := range map[string]struct {
		age             time.Duration
		claimed, yields bool
		says            string
	}{
		"at first":               {time.Minute, false, false, "it has the address until "},
		"after an hour":          {strayPatience + time.Minute, false, true, ""},
		"claimed, after an hour": {strayPatience + time.Minute, true, false, "allow it there, or delete that IPAddress"},
	} {
		t.Run(what, func(t *testing.T) {
			claim, stray := machine("web"), elsewhere("restored")
			mine := bound(claim, "192.0.2.7")
			mine.CreationTimestamp = metav1.NewTime(time.Now().Add(-tt.age))
			s := newScene(t, lab(), claim, mine, published(stray, "192.0.2.7"))
			s.forbid(stray.Namespace)
			if tt.claimed {
				testbed.Create(t, s.Management, stray)
			}
			after := s.reconcile(claim).RequeueAfter
			if got := s.has(published(claim, "")); got != tt.yields || got == (after > 0) {
				t.Errorf("the address is published: %t, and tried again after %s; want %t", got, after, tt.yields)
			}
			ready := s.ready(claim)
			if !strings.Contains(ready.Message, tt.says) || strings.Contains(ready.Message, "elsewhere") {
				t.Errorf("the claim says %q; want %q in it, and no other namespace", ready.Message, tt.says)
			}
			if !tt.yields && !strings.Contains(ready.Message, "ResourceQuota") {
				t.Errorf("the claim says %q; want that a quota may forbid the IPClaim", ready.Message)
			}
		})
	}
}

// An IPClaim that gave way is not made again before the stray has the address: otherwise the ledger, where the address
// cools, would give it back to the same name, again and again.
func TestStray_GetsItsAddressFirst(t *testing.T) {
	claim, stray := machine("web"), machine("restored")
	mine, theirs := bound(claim, "192.0.2.7"), inPlace.newClaim(stray)
	s := newScene(t, lab(), claim, mine, published(stray, "192.0.2.7"))
	s.reconcile(claim)
	if !s.has(theirs) {
		t.Fatal("the stray has no IPClaim")
	}
	s.refuses(theirs, ipamv1alpha1.ReasonAddressInUse)
	s.reconcile(claim)
	said := s.ready(claim)
	for range 3 {
		if after := s.reconcile(claim).RequeueAfter; s.has(inPlace.newClaim(claim)) || after == 0 {
			t.Fatalf("an IPClaim was made, or nothing ends the wait: it is tried again after %s", after)
		}
	}
	if ready := s.ready(claim); ready.Message != said.Message {
		t.Errorf("the claim says %q; want still %q", ready.Message, said.Message)
	}
	theirs.Status = bound(stray, "192.0.2.7").Status
	testbed.Update(t, s.Claims, theirs)
	if s.reconcile(claim); !s.has(inPlace.newClaim(claim)) {
		t.Errorf("no IPClaim is made; the claim says %+v", s.ready(claim))
	}
}

// An IPAddress that is gone from the server is no stray, whatever the cache shows.
func TestStray_IsCheckedOnTheServer(t *testing.T) {
	claim, former := machine("web"), machine("former")
	s := newScene(t, lab(), claim, bound(claim, "192.0.2.7"), published(former, "192.0.2.7"))
	s.reads(func(read func() error, key client.ObjectKey, object client.Object) error {
		if _, asked := object.(*capiv1.IPAddress); asked && key.Name == former.Name {
			return apierrors.NewNotFound(capiv1.GroupVersion.WithResource("ipaddresses").GroupResource(), key.Name)
		}
		return read()
	})
	if s.reconcile(claim); !s.has(published(claim, "")) || s.has(inPlace.newClaim(former)) {
		t.Errorf("the address is not published, or claimed for an IPAddress that is gone; the claim says %+v", s.ready(claim))
	}
}

// No machine is told a gateway that it cannot reach. The claim names the pool and its gateway, and goes on once the
// gateway is corrected.
func TestAddress_RefusesAGatewayOffTheLink(t *testing.T) {
	for gateway, want := range map[string]string{"192.0.2.1": "192.0.2.1", "": "", "198.51.100.1": "refused", "2001:db8::1": "refused", "192.0.2.255": "refused"} {
		claim, pool := machine("web"), lab()
		pool.Spec.Gateway = gateway
		s := newScene(t, pool, claim, bound(claim, "192.0.2.7"))
		s.reconcile(claim)
		made := published(claim, "")
		there := s.has(made)
		if there != (want != "refused") || there && made.Spec.Gateway != want {
			t.Errorf("of a pool with the gateway %q an IPAddress is there: %t, with the gateway %q; want %q", gateway, there, made.Spec.Gateway, want)
		}
		if ready := s.ready(claim); !there && (ready.Reason != capiv1.IPAddressClaimReadyPoolNotReadyReason || !strings.Contains(ready.Message, "spec.gateway "+gateway)) {
			t.Errorf("the claim says %s: %s; want PoolNotReady, with the gateway", ready.Reason, ready.Message)
		}
		corrected := pool.DeepCopy()
		corrected.Spec.Gateway, corrected.Generation = "192.0.2.2", pool.Generation+1
		if !usable.Update(event.UpdateEvent{ObjectOld: pool, ObjectNew: corrected}) {
			t.Error("a pool whose gateway was corrected wakes no claim")
		}
	}
}

// The IPClaim of a stray is mended, even if its IPAddressClaim is gone or paused. If it has lost its label, no cache
// shows it. If it was deleted before it had the address, it never gets one. Either fault would keep other claims
// waiting, or the address unclaimed.
func TestStray_MendsItsIPClaim(t *testing.T) {
	stray := machine("stray")
	paused := stray.DeepCopy()
	paused.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	for what, tt := range map[string]struct {
		left    *capiv1.IPAddressClaim // the IPAddressClaim of the stray; nil: it is gone
		deleted bool
	}{
		"without label":                    {nil, false},
		"without label, of a paused one":   {paused, false},
		"deleted unbound":                  {nil, true},
		"deleted unbound, of a paused one": {paused, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := beside(t, "one", published(stray, "192.0.2.7"))
			if tt.left != nil {
				testbed.Create(t, s.Management, tt.left.DeepCopy())
			}
			held := s.Claims.Names.newClaim(stray)
			held.Spec.Address = "192.0.2.7"
			if !tt.deleted {
				held.Labels, s.hidden[held] = nil, true
			}
			testbed.Create(t, s.Claims, held)
			if tt.deleted {
				testbed.Delete(t, s.Claims, held)
			}
			for range 2 { // the first pass lets a deleted IPClaim go
				s.reconcile(stray)
			}
			if s.wants("of the stray", held); held.Labels[LabelOrigin] != "one" || held.Spec.Address != "192.0.2.7" {
				t.Errorf("the IPClaim has the labels %v and asks for %q; want it labelled, for 192.0.2.7", held.Labels, held.Spec.Address)
			}
		})
	}
}

// If the cache still shows an IPAddress that is gone, this does not hide a stray with the same address.
func TestStray_KeepsItsAddressBesideADeletedOne(t *testing.T) {
	claim, stray := machine("web"), machine("restored")
	s := newScene(t, lab(), claim, bound(claim, "192.0.2.7"), published(stray, "192.0.2.7"))
	s.Management.Client = interceptor.NewClient(s.Management.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			if addresses, ok := list.(*capiv1.IPAddressList); ok {
				addresses.Items = slices.Insert(addresses.Items, 0, *published(machine("gone"), "192.0.2.7"))
			}
			return err
		},
	})
	s.reconcile(claim)
	if s.has(published(claim, "")) {
		t.Error("two IPAddresses show 192.0.2.7; want the one that was there alone")
	}
}
