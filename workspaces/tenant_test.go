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

	for name, test := range map[string]struct {
		asked   []apisv1alpha2.PermissionClaim
		before  []apisv1alpha2.AcceptablePermissionClaim
		after   []apisv1alpha2.AcceptablePermissionClaim
		changed bool
	}{
		"nothing asked":       {},
		"asked":               {asked: ask(events), after: grant(accepted(events)), changed: true},
		"granted already":     {asked: ask(events), before: grant(accepted(events)), after: grant(accepted(events))},
		"asked for more":      {asked: ask(moreEvents), before: grant(accepted(events)), after: grant(accepted(moreEvents)), changed: true},
		"no longer asked":     {asked: ask(events), before: grant(accepted(secrets), accepted(events)), after: grant(accepted(events)), changed: true},
		"rejected":            {asked: ask(events), before: grant(rejectedEvents), after: grant(rejectedEvents)},
		"rejected, then more": {asked: ask(moreEvents), before: grant(rejectedEvents), after: grant(rejectedMoreEvents), changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binding := &apisv1alpha2.APIBinding{}
			binding.Status.Phase = apisv1alpha2.APIBindingPhaseBound
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

// Before kcp has recorded what the export asks for, what was granted stays.
func TestAccept_NotRecordedYet(t *testing.T) {
	t.Parallel()
	binding := &apisv1alpha2.APIBinding{}
	binding.Spec.PermissionClaims = grant(accepted(claimOf("events", "create")))
	if accept(binding) || len(binding.Spec.PermissionClaims) != 1 {
		t.Errorf("permissions %+v; want what was granted before", binding.Spec.PermissionClaims)
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
	binding.Spec.PermissionClaims = grant(granted)
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

// kcp goes on serving what was bound when the export is gone, and says so by a condition.
func TestBound_Sentinels(t *testing.T) {
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

func ask(claims ...apisv1alpha2.PermissionClaim) []apisv1alpha2.PermissionClaim { return claims }

func grant(claims ...apisv1alpha2.AcceptablePermissionClaim) []apisv1alpha2.AcceptablePermissionClaim {
	return claims
}

func same(a, b apisv1alpha2.AcceptablePermissionClaim) bool {
	return a.EqualGRI(b.PermissionClaim) && a.State == b.State && slices.Equal(a.Verbs, b.Verbs)
}
