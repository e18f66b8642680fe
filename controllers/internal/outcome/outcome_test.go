package outcome_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/health"
	"github.com/kcp-ipam/ipam/test/must"
)

func status(conditions []metav1.Condition, kind string) string {
	c := meta.FindStatusCondition(conditions, kind)
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason
}

func TestConditions_ShowTheLatestAnswer(t *testing.T) {
	var conditions []metav1.Condition
	steps := []struct {
		name                                   string
		do                                     func()
		allocated, ready, reconciling, stalled string
	}{
		{"waits for room", func() {
			outcome.Refuse(&conditions, 1, &outcome.Refusal{Reason: ipamv1alpha1.ReasonPoolExhausted, Message: "m"})
		}, "False PoolExhausted", "False PoolExhausted", "True PoolExhausted", "absent"},
		{"can never be met", func() {
			outcome.Refuse(&conditions, 2, &outcome.Refusal{Reason: ipamv1alpha1.ReasonFamilyMismatch, Message: "m"})
		}, "False FamilyMismatch", "False FamilyMismatch", "absent", "True FamilyMismatch"},
		{"has a block that nobody can use as it is", func() {
			outcome.Unfit(&conditions, 2, "m", &outcome.Refusal{Reason: ipamv1alpha1.ReasonUniqueWithinDiffers, Message: "m"})
		}, "True AllocationSucceeded", "False UniqueWithinDiffers", "absent", "True UniqueWithinDiffers"},
		{"has a block that nobody can use for now", func() {
			outcome.Unfit(&conditions, 2, "m", &outcome.Refusal{Reason: ipamv1alpha1.ReasonBlockInUse, Message: "m"})
		}, "True AllocationSucceeded", "False BlockInUse", "True BlockInUse", "absent"},
		{"is met", func() { outcome.Succeed(&conditions, 3, "m") },
			"True AllocationSucceeded", "True AllocationSucceeded", "absent", "absent"},
	}
	for _, s := range steps {
		s.do()
		for kind, want := range map[string]string{
			ipamv1alpha1.ConditionAllocated: s.allocated, ipamv1alpha1.ConditionReady: s.ready,
			ipamv1alpha1.ConditionReconciling: s.reconciling, ipamv1alpha1.ConditionStalled: s.stalled,
		} {
			if got := status(conditions, kind); got != want {
				t.Errorf("%s: %s = %s, want %s", s.name, kind, got, want)
			}
		}
	}
	if got := meta.FindStatusCondition(conditions, ipamv1alpha1.ConditionReady).ObservedGeneration; got != 3 {
		t.Errorf("observedGeneration = %d, want 3", got)
	}
}

func TestRefuse_ChangesNothingTheSecondTime(t *testing.T) {
	var conditions []metav1.Condition
	refusal := &outcome.Refusal{Reason: ipamv1alpha1.ReasonClassNotFound, Message: "m"}
	if !outcome.Changed(conditions, refusal) {
		t.Error("the first refusal is no news")
	}
	outcome.Refuse(&conditions, 1, refusal)
	before := append([]metav1.Condition(nil), conditions...)
	if outcome.Changed(conditions, refusal) {
		t.Error("the same refusal is news again")
	}
	outcome.Refuse(&conditions, 1, refusal)
	for i := range before {
		if before[i] != conditions[i] {
			t.Errorf("condition %s changed: %+v", before[i].Type, conditions[i])
		}
	}
}

// A claim or pool that was refused for one of these reasons either waits or is stalled.
func TestStalled_FindsTheReasonsThatOnlyAChangeOfTheObjectEnds(t *testing.T) {
	for reason, want := range map[ipamv1alpha1.Reason]bool{
		ipamv1alpha1.ReasonPoolExhausted: false, ipamv1alpha1.ReasonClassNotFound: false, ipamv1alpha1.ReasonNoDefaultClass: false,
		ipamv1alpha1.ReasonUnknownProvisioner: false, ipamv1alpha1.ReasonQuotaExceeded: false, ipamv1alpha1.ReasonNoOfferingPool: false,
		ipamv1alpha1.ReasonPoolNotFound: false, ipamv1alpha1.ReasonPrefixLengthRejected: true, ipamv1alpha1.ReasonFamilyMismatch: true,
		ipamv1alpha1.ReasonAddressInUse: false, ipamv1alpha1.ReasonAddressOutOfRange: true, ipamv1alpha1.ReasonAllocationRetained: false,
		ipamv1alpha1.ReasonAddressReserved: true, ipamv1alpha1.ReasonOverlap: true, ipamv1alpha1.ReasonError: false,
		ipamv1alpha1.ReasonScopeRolesMissing: true, ipamv1alpha1.ReasonTargetRejected: true, ipamv1alpha1.ReasonUniqueWithinDiffers: true,
		ipamv1alpha1.ReasonChainBroken: false, ipamv1alpha1.ReasonDefaultConflict: false, ipamv1alpha1.ReasonRangeHeld: false,
		ipamv1alpha1.ReasonRangeExists: false, ipamv1alpha1.ReasonRangeNotHeld: false,
	} {
		if got := outcome.Stalled(reason); got != want {
			t.Errorf("Stalled(%s) = %t, want %t", reason, got, want)
		}
	}
}

// A message that is too long is cut between runes. Any other message stays as it was.
func FuzzRefuse_Message(f *testing.F) {
	f.Add("short")
	f.Add(strings.Repeat("x", 1025))
	f.Add(strings.Repeat("ä", 2000))
	f.Add(strings.Repeat("\U0010ffff", 300))
	f.Add(strings.Repeat("\x80", 2000))
	f.Add("x\n\x00\u202e{\"level\":\"error\"}")
	f.Fuzz(func(t *testing.T, message string) {
		var conditions []metav1.Condition
		outcome.Refuse(&conditions, 1, &outcome.Refusal{Reason: ipamv1alpha1.ReasonError, Message: message})
		for _, c := range conditions {
			kept, cut := strings.CutSuffix(c.Message, "…")
			if c.Message != message && (len(message) <= 1024 || !cut || !strings.HasPrefix(message, kept)) {
				t.Errorf("%q became %q", message, c.Message)
			}
			if len(c.Message) > 1024 || utf8.ValidString(message) && !utf8.ValidString(c.Message) {
				t.Errorf("%d bytes, valid %t", len(c.Message), utf8.ValidString(c.Message))
			}
		}
	})
}

// Tools that wait for objects read the conditions as the project means them.
func TestConditions_MeanTheSameToTools(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(*ipamv1alpha1.IPClaim)
		want   health.Health
	}{
		{"unanswered", func(c *ipamv1alpha1.IPClaim) {
			c.Status.ObservedGeneration = 0
			c.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: string(ipamv1alpha1.ReasonPending)}}
		}, health.Progressing},
		{"bound", func(c *ipamv1alpha1.IPClaim) { outcome.Succeed(&c.Status.Conditions, 1, "m") }, health.Healthy},
		{"waits", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonPoolExhausted) }, health.Progressing},
		{"stalled", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonFamilyMismatch) }, health.Degraded},
		{"retried", func(c *ipamv1alpha1.IPClaim) { refuse(c, ipamv1alpha1.ReasonError) }, health.Progressing},
		{"bound after a wait", func(c *ipamv1alpha1.IPClaim) {
			refuse(c, ipamv1alpha1.ReasonPoolExhausted)
			outcome.Succeed(&c.Status.Conditions, 1, "m")
		}, health.Healthy},
		{"changed since", func(c *ipamv1alpha1.IPClaim) {
			outcome.Succeed(&c.Status.Conditions, 1, "m")
			c.Generation = 2
		}, health.Progressing},
		{"deleted", func(c *ipamv1alpha1.IPClaim) {
			outcome.Succeed(&c.Status.Conditions, 1, "m")
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, health.Progressing},
		{"a class that is sound", func(c *ipamv1alpha1.IPClaim) { outcome.Ready(&c.Status.Conditions, 1, nil) }, health.Healthy},
		{"a class that is broken", func(c *ipamv1alpha1.IPClaim) {
			outcome.Ready(&c.Status.Conditions, 1, &outcome.Refusal{Reason: ipamv1alpha1.ReasonUnknownProvisioner, Message: "m"})
		}, health.Degraded},
		{"a second default class", func(c *ipamv1alpha1.IPClaim) {
			outcome.Ready(&c.Status.Conditions, 1, &outcome.Refusal{Reason: ipamv1alpha1.ReasonDefaultConflict, Message: "m"})
		}, health.Progressing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			claim := gen.Claim("c")
			claim.Generation, claim.Status.ObservedGeneration = 1, 1
			tt.answer(claim)
			content := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(claim))(t)
			got := must.Get(health.Of(&unstructured.Unstructured{Object: content}))(t)
			if got != tt.want {
				t.Errorf("the object is %s, want %s", got, tt.want)
			}
		})
	}
}

func refuse(claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) {
	outcome.Refuse(&claim.Status.Conditions, 1, &outcome.Refusal{Reason: reason, Message: "m"})
}
