package patch_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

type claim = ipamv1alpha1.IPClaim

func condition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Unix(0, 0)}
}

func set(kind, reason string) func(*claim) {
	return func(c *claim) { meta.SetStatusCondition(&c.Status.Conditions, condition(kind, reason)) }
}

// Between our read and our write, another client writes. Its changes are kept, and ours are written beside them. If
// theirs changes a field beside the conditions, or the condition that we change, ours is not sent again. It is not sent
// again either if a fact on which we have decided has changed.
func TestPatch_KeepsTheChangeOfAnotherClient(t *testing.T) {
	bound := func(c *claim) { c.Status.Phase = ipamv1alpha1.ClaimBound }
	for _, tt := range []struct {
		name        string
		theirs      func(*claim)
		ours        func(*claim)
		conflict    bool
		wantReasons []string // of the conditions, as type=reason
	}{
		{
			name:   "a label",
			theirs: func(c *claim) { c.Labels = map[string]string{"by": "them"} },
			ours:   bound, wantReasons: []string{"Allocated=old", "Foreign=old"},
		},
		{
			name:   "a condition that we do not touch",
			theirs: set("Foreign", "new"), ours: set("Allocated", "new"),
			wantReasons: []string{"Allocated=new", "Foreign=new"},
		},
		{
			name:   "a condition that was not there",
			theirs: set("Other", "new"), ours: set("Ready", "new"),
			wantReasons: []string{"Allocated=old", "Foreign=old", "Other=new", "Ready=new"},
		},
		{
			name:        "beside a condition that we take away",
			theirs:      set("Foreign", "new"),
			ours:        func(c *claim) { meta.RemoveStatusCondition(&c.Status.Conditions, "Allocated") },
			wantReasons: []string{"Foreign=new"},
		},
		{name: "the condition that we set", theirs: set("Allocated", "theirs"), ours: set("Allocated", "ours"), conflict: true},
		{name: "a condition that we set, too", theirs: set("Ready", "theirs"), ours: set("Ready", "ours"), conflict: true},
		{
			name:   "the condition that we set is taken away",
			theirs: func(c *claim) { meta.RemoveStatusCondition(&c.Status.Conditions, "Allocated") },
			ours:   set("Allocated", "ours"), conflict: true,
		},
		{name: "the field that we set", theirs: func(c *claim) { c.Status.Phase = ipamv1alpha1.ClaimError }, ours: bound, conflict: true},
		{
			name:   "another field that we have decided",
			theirs: func(c *claim) { c.Status.Phase = ipamv1alpha1.ClaimError },
			ours:   func(c *claim) { c.Status.ClassName = "ours" }, conflict: true,
		},
		{name: "the spec", theirs: func(c *claim) { c.Generation++ }, ours: bound, conflict: true},
		{name: "its deletion", theirs: func(c *claim) { c.DeletionTimestamp = new(metav1.Now()) }, ours: bound, conflict: true},
		{name: "another object of its name", theirs: func(c *claim) { c.UID = "another" }, ours: bound, conflict: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stored := gen.Claim("c")
			stored.Finalizers = []string{"example.com/stays"}
			stored.Status.Conditions = []metav1.Condition{condition("Allocated", "old"), condition("Foreign", "old")}
			s := newServer(t, stored)
			err := s.change(t, func(c *claim) {
				s.meanwhile(t, tt.theirs)
				tt.ours(c)
			})
			if tt.conflict {
				if !apierrors.IsConflict(err) || s.status != 2 {
					t.Errorf("err = %v after %d calls, want a conflict after one that writes and one that reads", err, s.status)
				}
				return
			}
			if err != nil || s.status != 3 {
				t.Fatalf("err = %v after %d calls, want none after 3", err, s.status)
			}
			got := gen.Claim("c")
			testbed.Read(t, s, got)
			if reasons := reasonsOf(got); !slices.Equal(reasons, tt.wantReasons) {
				t.Errorf("conditions are %v, want %v", reasons, tt.wantReasons)
			}
		})
	}
}

// meanwhile lets another client change the stored claim. A change that the fake server does not allow, such as of a
// UID, is only shown.
func (s *server) meanwhile(t *testing.T, change func(*claim)) {
	t.Helper()
	theirs := gen.Claim("c")
	testbed.Read(t, s, theirs)
	changed := theirs.DeepCopy()
	change(changed)
	theirs.Labels, theirs.Annotations = changed.Labels, map[string]string{"seen": "them"}
	testbed.Update(t, s, theirs)
	theirs.Status = changed.Status
	must.Do(t, s.Status().Update(t.Context(), theirs))
	s.shown = func(obj client.Object) { change(obj.(*claim)) }
}

func reasonsOf(c *claim) []string {
	var reasons []string
	for _, condition := range c.Status.Conditions {
		reasons = append(reasons, condition.Type+"="+condition.Reason)
	}
	slices.Sort(reasons)
	return reasons
}
