package workspaces

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-ipam/ipam/test/must"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	events := claimOf("events", "create")
	moreEvents := claimOf("events", "create", "patch")
	secrets := claimOf("secrets", "get")
	rejectedEvents := accepted(events)
	rejectedEvents.State = apisv1alpha2.ClaimRejected
	rejectedMoreEvents := accepted(moreEvents)
	rejectedMoreEvents.State = apisv1alpha2.ClaimRejected

	type asked = []apisv1alpha2.PermissionClaim
	type granted = []apisv1alpha2.AcceptablePermissionClaim
	for name, test := range map[string]struct {
		early   bool // kcp has not recorded yet what the export asks for
		asked   asked
		before  granted
		after   granted
		changed bool
	}{
		"nothing asked":       {},
		"not recorded yet":    {early: true, before: granted{accepted(events)}, after: granted{accepted(events)}},
		"asked":               {asked: asked{events}, after: granted{accepted(events)}, changed: true},
		"granted already":     {asked: asked{events}, before: granted{accepted(events)}, after: granted{accepted(events)}},
		"asked for more":      {asked: asked{moreEvents}, before: granted{accepted(events)}, after: granted{accepted(moreEvents)}, changed: true},
		"no longer asked":     {asked: asked{events}, before: granted{accepted(secrets), accepted(events)}, after: granted{accepted(events)}, changed: true},
		"rejected":            {asked: asked{events}, before: granted{rejectedEvents}, after: granted{rejectedEvents}},
		"rejected, then more": {asked: asked{moreEvents}, before: granted{rejectedEvents}, after: granted{rejectedMoreEvents}, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binding := &apisv1alpha2.APIBinding{}
			if !test.early {
				binding.Status.Phase = apisv1alpha2.APIBindingPhaseBound
			}
			binding.Status.ExportPermissionClaims = test.asked
			binding.Spec.PermissionClaims = test.before
			if changed := accept(binding); changed != test.changed {
				t.Errorf("accept reports %t; want %t", changed, test.changed)
			}
			if !slices.EqualFunc(binding.Spec.PermissionClaims, test.after, same) {
				t.Errorf("permissions %+v; want %+v", binding.Spec.PermissionClaims, test.after)
			}
		})
	}
}

func TestBound_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	binding := &apisv1alpha2.APIBinding{}
	binding.Status.Phase = apisv1alpha2.APIBindingPhaseBinding
	binding.Status.Conditions = conditionsv1alpha1.Conditions{{
		Type: apisv1alpha2.APIExportValid, Status: corev1.ConditionFalse, Reason: "APIExportNotFound", Message: "no export there",
	}}
	if err := Bound(binding); err == nil || !strings.Contains(err.Error(), "no export there") {
		t.Errorf("Bound() = %v; want an error with the message of the condition", err)
	}

	binding.Status.Phase = apisv1alpha2.APIBindingPhaseBound
	binding.Status.Conditions = conditionsv1alpha1.Conditions{{Type: apisv1alpha2.BindingUpToDate, Status: corev1.ConditionTrue}}
	granted := accepted(claimOf("events", "create"))
	binding.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{granted}
	if err := Bound(binding); err == nil || !strings.Contains(err.Error(), "events") {
		t.Errorf("Bound() = %v; want an error that names the permission not applied", err)
	}
	binding.Status.AppliedPermissionClaims = []apisv1alpha2.ScopedPermissionClaim{granted.ScopedPermissionClaim}
	must.Do(t, Bound(binding))
	binding.DeletionTimestamp = new(metav1.Now())
	if err := Bound(binding); err == nil || !strings.Contains(err.Error(), "being deleted") {
		t.Errorf("Bound() = %v; want an error that says it goes", err)
	}
}

// A workspace may have bound the export under any name, and twice. One of them is in use.
func TestBindings(t *testing.T) {
	t.Parallel()
	to := func(export, name string, age time.Duration, phase apisv1alpha2.APIBindingPhaseType) apisv1alpha2.APIBinding {
		binding := apisv1alpha2.APIBinding{}
		binding.Name, binding.CreationTimestamp = name, metav1.NewTime(time.Unix(0, 0).Add(-age))
		binding.Spec.Reference.Export = &apisv1alpha2.ExportBindingReference{Path: "root:ipam", Name: export}
		binding.Status.Phase = phase
		return binding
	}
	const bound, waits = apisv1alpha2.APIBindingPhaseBound, apisv1alpha2.APIBindingPhaseBinding
	other := to("tenancy.kcp.io", "tenancy", time.Hour, bound)
	for name, test := range map[string]struct {
		all  []apisv1alpha2.APIBinding
		want []string
	}{
		"none":               {[]apisv1alpha2.APIBinding{other, {}}, nil},
		"of another name":    {[]apisv1alpha2.APIBinding{other, to(ExportName, "addresses", time.Hour, bound)}, []string{"addresses"}},
		"a second one":       {[]apisv1alpha2.APIBinding{to(ExportName, "a", time.Minute, waits), to(ExportName, "b", time.Hour, bound)}, []string{"b", "a"}},
		"the second in use":  {[]apisv1alpha2.APIBinding{to(ExportName, "a", time.Hour, waits), to(ExportName, "b", time.Minute, bound)}, []string{"b", "a"}},
		"neither in use yet": {[]apisv1alpha2.APIBinding{to(ExportName, "a", time.Minute, ""), to(ExportName, "b", time.Hour, waits)}, []string{"b", "a"}},
	} {
		var got []string
		for _, binding := range Bindings(&apisv1alpha2.APIBindingList{Items: test.all}) {
			got = append(got, binding.Name)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the bindings are %v, want %v", name, got, test.want)
		}
	}
}

// If the export is gone, kcp goes on serving what was bound, and says so by a condition.
func TestBound_TellsAGoneExportFromAConflict(t *testing.T) {
	t.Parallel()
	binding := &apisv1alpha2.APIBinding{}
	binding.Status.Phase = apisv1alpha2.APIBindingPhaseBound
	binding.Status.Conditions = conditionsv1alpha1.Conditions{
		{Type: apisv1alpha2.BindingUpToDate, Status: corev1.ConditionTrue},
		{Type: apisv1alpha2.APIExportValid, Status: corev1.ConditionFalse, Reason: apisv1alpha2.APIExportNotFoundReason, Message: "not found"},
	}
	must.Be(t, Bound(binding), ErrNoExport)
	binding.Status.Phase = apisv1alpha2.APIBindingPhaseBinding
	binding.Status.Conditions = conditionsv1alpha1.Conditions{
		{Type: conditionsv1alpha1.ReadyCondition, Status: corev1.ConditionFalse, Reason: apisv1alpha2.NamingConflictsReason, Message: "bound by ipam"},
		{Type: apisv1alpha2.BindingUpToDate, Status: corev1.ConditionFalse, Reason: apisv1alpha2.NamingConflictsReason, Message: "bound by ipam"},
	}
	if err := Bound(binding); !errors.Is(err, ErrConflict) || strings.Count(err.Error(), "bound by ipam") != 1 {
		t.Errorf("beside another binding Bound() = %v, want %v, and its cause once", err, ErrConflict)
	}
}

func claimOf(resource string, verbs ...string) apisv1alpha2.PermissionClaim {
	return apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Resource: resource}, Verbs: verbs}
}

func same(a, b apisv1alpha2.AcceptablePermissionClaim) bool {
	return a.EqualGRI(b.PermissionClaim) && a.State == b.State && slices.Equal(a.Verbs, b.Verbs)
}
