package check

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	conditionsv1alpha1 "github.com/kcp-dev/sdk/apis/third_party/conditions/apis/conditions/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/stage"
)

var (
	apiGroups  = schema.GroupResource{Group: "apis.kcp.io"}
	apiExports = schema.GroupResource{Group: "apis.kcp.io", Resource: "apiexports"}
	events     = apisv1alpha2.PermissionClaim{GroupResource: apisv1alpha2.GroupResource{Resource: "events"}}
)

// complete returns an installation that lacks nothing, as a user of a tenant sees it.
func complete(t *testing.T) *installation {
	t.Helper()
	export := &apisv1alpha2.APIExport{}
	must.Do(t, yaml.Unmarshal(config.APIExport(), export))
	binding := apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: "ipam"}}
	claim := apisv1alpha2.ScopedPermissionClaim{PermissionClaim: events}
	binding.Spec.PermissionClaims = []apisv1alpha2.AcceptablePermissionClaim{{ScopedPermissionClaim: claim, State: apisv1alpha2.ClaimAccepted}}
	binding.Status = apisv1alpha2.APIBindingStatus{
		Phase:                   apisv1alpha2.APIBindingPhaseBound,
		ExportPermissionClaims:  []apisv1alpha2.PermissionClaim{events},
		AppliedPermissionClaims: []apisv1alpha2.ScopedPermissionClaim{claim},
		Conditions:              conditionsv1alpha1.Conditions{{Type: apisv1alpha2.BindingUpToDate, Status: corev1.ConditionTrue}},
	}
	for _, resource := range export.Spec.Resources {
		binding.Status.BoundResources = append(binding.Status.BoundResources, apisv1alpha2.BoundAPIResource{
			Group: resource.Group, Resource: resource.Name, Schema: apisv1alpha2.BoundAPIResourceSchema{Name: resource.Schema},
		})
	}
	trial := gen.Claim("trial")
	trial.Status.Conditions = []metav1.Condition{{Type: ipamv1alpha1.ConditionAllocated, Reason: string(ipamv1alpha1.ReasonNoDefaultClass)}}
	may := map[access]bool{}
	for _, want := range slices.Concat(needed, kept) {
		may[want] = true
	}
	return &installation{
		workspace: "root:team-a", namespace: "default", place: rights.Tenant, server: "v1.35.0+kcp",
		served:    []string{"ipclaims", "ipallocations", "ippools", "ipclasses"},
		bindings:  []apisv1alpha2.APIBinding{binding},
		exportErr: apierrors.NewNotFound(apiGroups, "ipam.miloapis.com"),
		may:       may, trial: trial,
	}
}

// inConflict returns a binding that kcp does not bind, because another binding is in the way.
func inConflict(name string) apisv1alpha2.APIBinding {
	binding := apisv1alpha2.APIBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
	binding.Status.Phase = apisv1alpha2.APIBindingPhaseBinding
	for _, kind := range []conditionsv1alpha1.ConditionType{conditionsv1alpha1.ReadyCondition, apisv1alpha2.BindingUpToDate} {
		binding.Status.Conditions = append(binding.Status.Conditions, conditionsv1alpha1.Condition{
			Type: kind, Status: corev1.ConditionFalse, Reason: apisv1alpha2.NamingConflictsReason,
			Message: "Unable to bind APIs because they are bound by other APIBindings or CRDs: ipclaims.ipam.miloapis.com",
		})
	}
	return binding
}

// machine returns an IPAddressClaim whose condition Ready has this status; empty: it was not answered.
func machine(name string, ready metav1.ConditionStatus) capiv1.IPAddressClaim {
	made := capiv1.IPAddressClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if ready == "" {
		return made
	}
	made.Status.Conditions = []metav1.Condition{{
		Type: capiv1.IPAddressClaimReadyCondition, Status: ready,
		Reason: capiv1.IPAddressClaimReadyPoolNotReadyReason, Message: "IPPool lab does not exist; create it, the address then follows",
	}}
	return made
}

// needy returns a management cluster with claims that need attention: one for each cause, and two that were not
// answered.
func needy() *machines {
	of := func(cluster string, claim capiv1.IPAddressClaim) capiv1.IPAddressClaim {
		claim.Spec.ClusterName = cluster
		return claim
	}
	deleted, annotated := of("resting", machine("deleted", metav1.ConditionTrue)), machine("annotated", "")
	deleted.DeletionTimestamp = new(metav1.Now())
	annotated.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	resting := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "resting"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}}
	return &machines{
		claims: []capiv1.IPAddressClaim{
			deleted, annotated, machine("refused", metav1.ConditionFalse), machine("silent-1", ""), machine("silent-2", ""),
			of("missing", machine("early", "")), of("resting", machine("served", metav1.ConditionTrue)),
		},
		clusters: map[client.ObjectKey]*clusterv1.Cluster{client.ObjectKeyFromObject(resting): resting},
	}
}

// Each way in which an installation can be incomplete has a row in the output, with a remedy and an exit code.
func TestCheck_HasARemedyForEachFault(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*installation)
		code   int
	}{
		"complete": {func(*installation) {}, exit.OK},
		"no_server": {func(i *installation) {
			i.serverErr = &url.Error{Op: "Get", URL: "https://kcp.example:6443/version", Err: errors.New("connection refused")}
		}, exit.Unavailable},
		"not_bound": {func(i *installation) {
			i.servedErr, i.bindings = apierrors.NewNotFound(apiGroups, ""), nil
		}, exit.Unavailable},
		"rejected": {func(i *installation) {
			i.bindings[0].Spec.PermissionClaims[0].State = apisv1alpha2.ClaimRejected
		}, exit.Forbidden},
		"viewer": {func(i *installation) {
			i.bindingErr, i.bindings = apierrors.NewForbidden(apiGroups, "", nil), nil
			i.may[access{"create", "ipclaims"}], i.may[access{"delete", "ipclaims"}] = false, false
		}, exit.Forbidden},
		"no_controller": {func(i *installation) { i.trial = gen.Claim("trial") }, exit.Unavailable},
		"skew": {func(i *installation) {
			i.bindings[0].Status.BoundResources[0].Schema.Name = "v0.ipallocations.ipam.miloapis.com"
			i.served = i.served[:3]
		}, exit.OK},
		"platform": {func(i *installation) {
			i.exportErr, i.export, i.bindings, i.place = nil, &apisv1alpha2.APIExport{}, nil, rights.Platform
		}, exit.OK},
		"platform_viewer": {func(i *installation) {
			i.exportErr, i.bindingErr = apierrors.NewForbidden(apiGroups, "", nil), apierrors.NewForbidden(apiGroups, "", nil)
			i.bindings, i.place, i.may = nil, rights.Platform, map[access]bool{{"list", "ipclaims"}: true}
		}, exit.OK},
		"platform_nobody": {func(i *installation) {
			i.exportErr, i.bindingErr = apierrors.NewForbidden(apiGroups, "", nil), apierrors.NewForbidden(apiGroups, "", nil)
			i.bindings, i.place, i.may = nil, rights.Platform, nil
		}, exit.Forbidden},
		"no_entry": {func(i *installation) { i.serverErr = apierrors.NewForbidden(apiGroups, "", nil) }, exit.Forbidden},
		"second_binding": {func(i *installation) {
			i.bindings = append(i.bindings, inConflict("ipam2"))
		}, exit.OK},
		"conflict": {func(i *installation) {
			i.bindings = []apisv1alpha2.APIBinding{inConflict("ipam")}
		}, exit.Unavailable},
		"export_gone": {func(i *installation) {
			i.bindings[0].Status.Conditions = append(i.bindings[0].Status.Conditions, conditionsv1alpha1.Condition{
				Type: apisv1alpha2.APIExportValid, Status: corev1.ConditionFalse, Reason: apisv1alpha2.APIExportNotFoundReason,
				Message: "APIExport root:ipam|ipam.miloapis.com not found",
			})
			i.served, i.trial = i.served[:3], gen.Claim("trial")
		}, exit.Unavailable},
		"platform_export_gone": {func(i *installation) {
			i.exportErr, i.bindings = apierrors.NewNotFound(apiExports, "ipam.miloapis.com"), nil
		}, exit.Unavailable},
		"machines": {func(i *installation) {
			i.machines = &machines{claims: []capiv1.IPAddressClaim{machine("a", metav1.ConditionTrue)}}
		}, exit.OK},
		"machines_without_contract": {func(i *installation) {
			i.machines = &machines{lacking: []string{"ipaddressclaims.ipam.cluster.x-k8s.io/v1beta2"}}
		}, exit.OK},
		"machines_unread": {func(i *installation) { i.machines = &machines{claimsErr: apierrors.NewForbidden(apiGroups, "", nil)} }, exit.OK},
		"machines_refused": {func(i *installation) {
			i.machines = &machines{claims: []capiv1.IPAddressClaim{machine("a", metav1.ConditionTrue), machine("b", metav1.ConditionFalse)}}
		}, exit.OK},
		"machines_not_answered": {func(i *installation) {
			i.machines = &machines{claims: []capiv1.IPAddressClaim{machine("a", metav1.ConditionFalse), machine("b", "")}}
		}, exit.OK},
		"machines_deleted": {func(i *installation) {
			leaving := machine("b", metav1.ConditionTrue)
			leaving.DeletionTimestamp = new(metav1.Now())
			i.machines = &machines{claims: []capiv1.IPAddressClaim{machine("a", metav1.ConditionTrue), leaving}}
		}, exit.OK},
		"machines_in_need": {func(i *installation) { i.machines = needy() }, exit.OK},
		"machines_of_a_workspace": {func(i *installation) {
			i.servedErr, i.bindings = apierrors.NewNotFound(apiGroups, ""), nil
			i.machines = &machines{claims: []capiv1.IPAddressClaim{machine("a", metav1.ConditionTrue)}}
		}, exit.OK},
	} {
		s, found := stage.New(t), complete(t)
		test.change(found)
		err := showChecks(s.Session, &output.Printer{}, found.judge())
		if got := exit.CodeOf(err); got != test.code {
			t.Errorf("%s: ends with %d, %v; want %d", name, got, err, test.code)
		}
		if err != nil {
			s.Report(err)
		}
		stage.Golden(t, "check_"+name, s.Printed.String()+s.Said.String())
	}
}

func TestCheck_PrintsJSONAndYAML(t *testing.T) {
	for _, format := range []string{output.JSON, output.YAML} {
		s, found := stage.New(t), complete(t)
		found.trial = gen.Claim("trial")
		if err := showChecks(s.Session, &output.Printer{Format: format}, found.judge()); exit.CodeOf(err) != exit.Unavailable {
			t.Errorf("%s: ends with %v; want %d", format, err, exit.Unavailable)
		}
		stage.Golden(t, "check_"+format, s.Printed.String())
	}
}

// If a controller refuses the claim of a default class, it has answered.
func TestCheck_TakesARefusalForAnAnswer(t *testing.T) {
	by := func(code int32, reason ipamv1alpha1.Reason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: "no"}}}}}
	}
	for _, test := range []struct {
		err  error
		want result
	}{
		{by(http.StatusInsufficientStorage, ipamv1alpha1.ReasonPoolExhausted), checkOK},
		{by(http.StatusServiceUnavailable, ipamv1alpha1.ReasonError), checkFailed},
		{apierrors.NewServiceUnavailable("later"), checkFailed},
	} {
		found := complete(t)
		found.trialErr = test.err
		if got := found.judgeController(); got.Result != test.want {
			t.Errorf("a trial that ends with %v is judged %+v, want %s", test.err, got, test.want)
		}
	}
}

// With --wait, the checks are repeated until none fails or the time is over. Each new cause is printed once.
func TestCheck_WaitsUntilNothingFails(t *testing.T) {
	const tenTimes = 10*between + between/2
	for name, test := range map[string]struct {
		patience    time.Duration
		readyAt     int // the number of the first look at which nothing fails; 0: there is none
		looks, code int
		says        int
	}{
		"ready at once":   {tenTimes, 1, 1, exit.OK, 0},
		"ready later":     {tenTimes, 3, 3, exit.OK, 1},
		"never ready":     {tenTimes, 0, 11, exit.Unavailable, 1},
		"without waiting": {0, 3, 1, exit.Unavailable, 0},
	} {
		s, looks := stage.New(t), 0
		synctest.Test(t, func(t *testing.T) {
			list, err := repeat(t.Context(), s.Session, test.patience, func(ctx context.Context) (checklist, error) {
				looks++
				found := complete(t)
				if looks != test.readyAt {
					found.trial = gen.Claim("trial")
				}
				return found.judge(), ctx.Err()
			})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := showChecks(s.Session, &output.Printer{}, list); exit.CodeOf(err) != test.code {
				t.Errorf("%s: it ends with %v; want %d", name, err, test.code)
			}
		})
		if looks != test.looks {
			t.Errorf("%s: it has looked %d times; want %d", name, looks, test.looks)
		}
		if got := strings.Count(s.Said.String(), "waiting for controller: the CREATE of a claim is not answered"); got != test.says {
			t.Errorf("%s: it says %q; want the cause %d times", name, s.Said, test.says)
		}
	}
}

// If a wait is interrupted, the error says so. If the first look takes too long, the error says so, too.
func TestCheck_SaysHowAWaitEnded(t *testing.T) {
	s := stage.New(t)
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (checklist, error) { <-ctx.Done(); return checklist{}, ctx.Err() }
		if _, err := repeat(t.Context(), s.Session, time.Minute, hangs); exit.CodeOf(err) != exit.Unavailable {
			t.Errorf("a look that hangs ends with %v; want %d", err, exit.Unavailable)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(between, cancel)
		if _, err := repeat(ctx, s.Session, time.Minute, hangs); exit.CodeOf(err) != exit.Aborted {
			t.Errorf("an interrupted wait ends with %v; want %d", err, exit.Aborted)
		}
	})
}
