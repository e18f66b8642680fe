package config

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/test/gen"
)

// policy is a policy and its binding, compiled as a server does.
type policy struct {
	spec      admissionregistrationv1.ValidatingAdmissionPolicySpec
	action    admissionregistrationv1.ValidationAction
	validator validating.Validator
}

// policies returns the policies for kcp.
func policies(t *testing.T) map[string]policy {
	t.Helper()
	return policiesOf(t, Policies())
}

func policiesOf(t *testing.T, tree fs.FS) map[string]policy {
	t.Helper()
	compiled := map[string]policy{}
	for _, manifest := range loadAs[*admissionregistrationv1.ValidatingAdmissionPolicy](t, tree) {
		compiled[manifest.Name] = policy{spec: manifest.Spec, validator: compile(t, manifest)}
	}
	for _, binding := range loadAs[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, tree) {
		bound, ok := compiled[binding.Spec.PolicyName]
		if !ok || len(binding.Spec.ValidationActions) != 1 {
			t.Fatalf("binding %s: no policy %s, or not just one action", binding.Name, binding.Spec.PolicyName)
		}
		bound.action = binding.Spec.ValidationActions[0]
		compiled[binding.Spec.PolicyName] = bound
	}
	return compiled
}

// compile fails the test on any expression that does not compile.
func compile(t *testing.T, manifest *admissionregistrationv1.ValidatingAdmissionPolicy) validating.Validator {
	t.Helper()
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	evaluator := func(expressions []cel.ExpressionAccessor, options cel.OptionalVariableDeclarations) cel.ConditionEvaluator {
		compiled := compiler.CompileCondition(expressions, options, environment.StoredExpressions)
		for _, err := range compiled.CompilationErrors() {
			t.Errorf("%s: %v", manifest.Name, err)
		}
		return compiled
	}
	conditions := make([]cel.ExpressionAccessor, len(manifest.Spec.MatchConditions))
	for i := range manifest.Spec.MatchConditions {
		conditions[i] = (*matchconditions.MatchCondition)(&manifest.Spec.MatchConditions[i])
	}
	validations := make([]cel.ExpressionAccessor, len(manifest.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(manifest.Spec.Validations))
	for i, validation := range manifest.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: validation.Expression, Message: validation.Message}
		if validation.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: validation.MessageExpression}
		}
	}
	authorized := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	failure := manifest.Spec.FailurePolicy
	return validating.NewValidator(
		evaluator(validations, authorized),
		matchconditions.NewMatcher(evaluator(conditions, authorized), failure, "policy", "validate", manifest.Name),
		evaluator(nil, authorized),
		evaluator(messages, cel.OptionalVariableDeclarations{}),
		failure, nil)
}

// request is what a policy is asked about.
type request struct {
	by        user.Info
	operation admission.Operation
	resource  string // with its subresource, if any: ippools/status
	object    any    // at a DELETE the old object; a change has the old and the new one
}

// change is an update from one object to another. A request to update an object that is not a change leaves it as it
// is.
type change struct{ from, to any }

// denied returns the messages of the policies that refuse or warn.
func (r request) denied(t *testing.T, all map[string]policy) []string {
	t.Helper()
	var messages []string
	for _, p := range all {
		rule := p.spec.MatchConstraints.ResourceRules[0]
		if !slices.Contains(rule.Resources, r.resource) || !slices.Contains(rule.Operations, admissionregistrationv1.OperationType(r.operation)) {
			continue
		}
		attributes := r.attributes(t)
		result := p.validator.Validate(t.Context(), attributes.GetResource(), attributes, nil, nil, celconfig.RuntimeCELCostBudget, nil)
		for _, decision := range result.Decisions {
			if decision.Evaluation == validating.EvalError {
				t.Fatal(decision.Message)
			}
			if decision.Action == validating.ActionDeny {
				messages = append(messages, string(p.action)+": "+decision.Message)
			}
		}
	}
	return messages
}

func (r request) attributes(t *testing.T) *admission.VersionedAttributes {
	t.Helper()
	before, after := r.object, r.object
	if c, ok := r.object.(change); ok {
		before, after = c.from, c.to
	}
	content, old := &unstructured.Unstructured{Object: object(t, after)}, &unstructured.Unstructured{Object: object(t, before)}
	resource, subresource, _ := strings.Cut(r.resource, "/")
	version := ipamv1alpha1.GroupVersion
	if _, ok := r.object.(*v1controller1.IPClaim); ok {
		version = v1controller1.GroupVersion
	}
	attributes := &admission.VersionedAttributes{VersionedKind: content.GroupVersionKind()}
	switch r.operation {
	case admission.Create:
		attributes.VersionedObject = content
	case admission.Delete:
		attributes.VersionedOldObject = content
	default:
		attributes.VersionedObject, attributes.VersionedOldObject = content, old
	}
	attributes.Attributes = admission.NewAttributesRecord(attributes.VersionedObject, attributes.VersionedOldObject,
		content.GroupVersionKind(), content.GetNamespace(), content.GetName(),
		version.WithResource(resource),
		subresource, r.operation, nil, false, r.by)
	return attributes
}

// account returns the controller's service account as seen from a logical cluster and
// with the scopes given.
func account(cluster string, scopes ...string) user.Info {
	return &user.DefaultInfo{
		Name:   "system:serviceaccount:ipam-system:ipam-controller",
		Groups: []string{"system:serviceaccounts", "system:authenticated"},
		Extra: map[string][]string{
			"authentication.kcp.io/cluster-name": {cluster},
			"authentication.kcp.io/scopes":       scopes,
		},
	}
}

const platformScope = "cluster:" + PlatformCluster

var (
	theController = account(PlatformCluster, platformScope)
	kcp           = &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}
	others        = map[string]user.Info{
		"a tenant":                            &user.DefaultInfo{Name: "tenant", Groups: []string{"system:authenticated"}},
		"the admin of kcp":                    &user.DefaultInfo{Name: "kcp-admin", Groups: []string{"system:kcp:admin", "system:authenticated"}},
		"an account of the same name":         account("tenant", "cluster:tenant"),
		"an impersonator":                     account(PlatformCluster, "cluster:tenant"),
		"an impersonator of the scope":        account(PlatformCluster, platformScope, "cluster:tenant"),
		"a user of the controller's name":     &user.DefaultInfo{Name: theController.GetName(), Groups: theController.GetGroups()},
		"another account of the platform":     &user.DefaultInfo{Name: "system:serviceaccount:ipam-system:default", Extra: theController.GetExtra()},
		"an account with the cluster's extra": account("tenant", platformScope),
	}
)

func TestPolicies_Refuse(t *testing.T) {
	all := policies(t)
	allocation := gen.Allocation("web", "p", "10.0.0.0/28")
	answered, otherwise := gen.Claim("c"), gen.Claim("c")
	answered.Status.AllocatedCIDR, otherwise.Status.AllocatedCIDR = "10.0.0.0/28", "10.0.0.16/28"
	slice := gen.Pool("p", gen.Label(ipamv1alpha1.LabelSlice, "uid"))
	few, many := created(`"f:spec":{}`), created(`"f:spec":{}`)
	few.Finalizers, many.Finalizers = held(ipamv1alpha1.MaxFinalizers), held(ipamv1alpha1.MaxFinalizers+1)
	for _, tt := range []struct {
		name string
		request
		want string
	}{
		{"create a claim with many finalizers", request{nil, admission.Create, "ipclaims", many}, "metadata.finalizers has more than 16 names"},
		{"give a claim many finalizers", request{nil, admission.Update, "ipclaims", change{few, many}}, "metadata.finalizers has more than 16 names"},
		{"create a pool with many labels", request{nil, admission.Create, "ippools", labelled(ipamv1alpha1.MaxLabels + 1)}, "metadata.labels has more than 64 labels"},
		{"give a pool many labels", request{nil, admission.Update, "ippools", change{labelled(ipamv1alpha1.MaxLabels), labelled(ipamv1alpha1.MaxLabels + 1)}}, "metadata.labels has more than 64 labels"},
		{"create an allocation", request{nil, admission.Create, "ipallocations", allocation}, "IPAllocations are written by the system"},
		{"change an allocation", request{nil, admission.Update, "ipallocations", allocation}, "IPAllocations are written by the system"},
		{"delete a bound allocation", request{nil, admission.Delete, "ipallocations", allocation}, "this allocation is held by the IPClaim web: delete the claim"},
		{"write the status of a class", request{nil, admission.Update, "ipclasses/status", gen.Class("c")}, "the status is written by the system"},
		{"write the status of a pool", request{nil, admission.Update, "ippools/status", gen.Pool("p")}, "the status is written by the system"},
		{"write the status of a claim", request{nil, admission.Update, "ipclaims/status", gen.Claim("c")}, "the status is written by the system"},
		{"create a claim with a status", request{nil, admission.Create, "ipclaims", created(`"f:spec":{},"f:status":{"f:phase":{}}`)}, "the status is written by the system: remove status"},
		{"create a claim with a second manager of a status", request{nil, admission.Create, "ipclaims", created(`"f:spec":{}`, `"f:status":{".":{}}`)}, "the status is written by the system: remove status"},
		{"create a claim without managed fields", request{nil, admission.Create, "ipclaims", created()}, "metadata.managedFields is empty"},
		{"create a claim in the version of the controller", request{nil, admission.Create, "ipclaims", &v1controller1.IPClaim{IPClaim: *created(`"f:spec":{}`)}}, "v1controller1 is for the controller alone: create the claim in v1alpha1"},
		{"give a claim a status", request{nil, admission.Update, "ipclaims", change{gen.Claim("c"), answered}}, "the status is written by the system: send it as it was read"},
		{"take the status of a claim", request{nil, admission.Update, "ipclaims", change{answered, gen.Claim("c")}}, "the status is written by the system: send it as it was read"},
		{"change the status of a claim", request{nil, admission.Update, "ipclaims", change{answered, otherwise}}, "the status is written by the system: send it as it was read"},
		{"make a slice", request{nil, admission.Create, "ippools", slice}, "the label ipam.miloapis.com/slice-of is given by the system"},
		{"make a pool a slice", request{nil, admission.Update, "ippools", change{gen.Pool("p"), slice}}, "the label ipam.miloapis.com/slice-of is given by the system"},
		{"make a slice a pool", request{nil, admission.Update, "ippools", change{slice, gen.Pool("p")}}, "the label ipam.miloapis.com/slice-of is given by the system"},
		{"make a slice one of another pool", request{nil, admission.Update, "ippools", change{slice, gen.Pool("p", gen.Label(ipamv1alpha1.LabelSlice, "other"))}}, "the label ipam.miloapis.com/slice-of is given by the system"},
		{"forge a pool of a network", request{nil, admission.Create, "ippools", derived(gen.Pool("p"))}, "spec.classRef is given by the system: remove it"},
		{"make a pool one of a network", request{nil, admission.Update, "ippools", change{gen.Pool("p"), derived(gen.Pool("p"))}}, "spec.classRef is given by the system: leave it as it is"},
		{"make a pool of a network an own one", request{nil, admission.Update, "ippools", change{derived(gen.Pool("p")), gen.Pool("p")}}, "spec.classRef is given by the system: leave it as it is"},
		{"change a pool of a network", request{nil, admission.Update, "ippools", change{derived(gen.Pool("p")), derived(gen.Pool("p", gen.Label("a", "b")))}}, "this pool was made by its class for a scope, and is changed by the system alone"},
		{"delete a pool of a network", request{nil, admission.Delete, "ippools", derived(gen.Pool("p"))}, "this pool was made by its class for a scope, and is in use: delete the IPClaim with target ScopeRange"},
		{"delete a pool of a network in use", request{nil, admission.Delete, "ippools", derived(inUse(gen.Pool("p")))}, "this pool was made by its class for a scope, and is in use"},
		{"label a pool as one of a class", request{nil, admission.Create, "ippools", gen.Pool("p", gen.Label(ipamv1alpha1.LabelProvisionedBy, "c"))}, "the labels ipam.miloapis.com/provisioned-by, scope-digest and provisioned-for are given by the system"},
		{"label a pool as one of a scope", request{nil, admission.Update, "ippools", change{gen.Pool("p"), gen.Pool("p", gen.Label(ipamv1alpha1.LabelScopeDigest, "d"))}}, "the labels ipam.miloapis.com/provisioned-by, scope-digest and provisioned-for are given by the system"},
		{"label a pool as one for a workspace", request{nil, admission.Update, "ippools", change{gen.Pool("p", gen.Label(ipamv1alpha1.LabelProvisionedFor, "a")), gen.Pool("p")}}, "the labels ipam.miloapis.com/provisioned-by, scope-digest and provisioned-for are given by the system"},
		{"delete a pool in use", request{nil, admission.Delete, "ippools", inUse(gen.Pool("p"))}, "this pool is in use: release its claims and child pools first (held by IPClaim default/web); if you just did, try again in a second"},
	} {
		for name, somebody := range others {
			t.Run(tt.name+" as "+name, func(t *testing.T) {
				tt.by = somebody
				expect(t, tt.denied(t, all), "Deny: "+tt.want)
			})
		}
		for name, system := range map[string]user.Info{"the controller": theController, "kcp": kcp} {
			t.Run(tt.name+" as "+name, func(t *testing.T) {
				tt.by = system
				expect(t, tt.denied(t, all), "")
			})
		}
	}
}

func TestPolicies_Admit(t *testing.T) {
	all := policies(t)
	tenant := others["a tenant"]
	answered := gen.Claim("c")
	answered.Status.AllocatedCIDR = "10.0.0.0/28"
	relabelled := answered.DeepCopy()
	relabelled.Labels = map[string]string{"a": "b"}
	webhook := created(`"f:spec":{}`)
	webhook.Status = answered.Status
	most := gen.Pool("p", gen.CIDR("10.0.0.0/8"))
	most.Finalizers, most.Labels = held(ipamv1alpha1.MaxFinalizers), labelled(ipamv1alpha1.MaxLabels).Labels
	older, fewer, moved := gen.Claim("c"), gen.Claim("c"), gen.Claim("c", gen.Reclaim(ipamv1alpha1.ReclaimRetain))
	older.Finalizers, fewer.Finalizers, moved.Finalizers = held(40), held(39), held(40)
	for _, r := range []request{
		{tenant, admission.Delete, "ipallocations", gen.Allocation("web", "p", "10.0.0.0/28", gen.Retained())},
		{tenant, admission.Delete, "ippools", gen.Pool("p")},
		{tenant, admission.Delete, "ippools", derived(idle(gen.Pool("p")))},
		{tenant, admission.Create, "ipclaims", created(`"f:spec":{"f:className":{}}`)},
		{tenant, admission.Create, "ipclaims", created(`"f:metadata":{"f:labels":{}}`, `"f:spec":{},"f:status":{}`)},
		{tenant, admission.Create, "ipclaims", webhook},
		{tenant, admission.Update, "ipclaims", answered},
		{tenant, admission.Update, "ipclaims", change{answered, relabelled}},
		{tenant, admission.Update, "ipclaims", change{gen.Claim("c"), `{metadata: {name: c}, spec: {}, status: {}}`}},
		{tenant, admission.Update, "ipclaims", change{`{metadata: {name: c}, spec: {}, status: {}}`, gen.Claim("c")}},
		{tenant, admission.Create, "ippools", gen.Pool("p")},
		{tenant, admission.Create, "ippools", most},
		{tenant, admission.Update, "ipclaims", older},
		{tenant, admission.Update, "ipclaims", change{older, fewer}},
		{tenant, admission.Update, "ipclaims", change{older, moved}},
		{tenant, admission.Update, "ipclaims", change{older, gen.Claim("c")}},
		{tenant, admission.Create, "ippools", gen.Pool("p", gen.Label("tier", "a"))},
		{tenant, admission.Update, "ippools", gen.Pool("p", gen.Label(ipamv1alpha1.LabelSlice, "uid"))},
	} {
		expect(t, r.denied(t, all), "")
	}
}

// created returns a claim whose managers have recorded these fields.
func created(fields ...string) *ipamv1alpha1.IPClaim {
	claim := gen.Claim("c")
	for i, set := range fields {
		claim.ManagedFields = append(claim.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("manager-", i), Operation: metav1.ManagedFieldsOperationUpdate,
			APIVersion: ipamv1alpha1.GroupVersion.String(), FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte("{" + set + "}")},
		})
	}
	return claim
}

func TestPolicies_Warn(t *testing.T) {
	claim := created(`"f:spec":{}`)
	claim.Spec = gen.Claim("c", gen.Selecting("tier", "a")).Spec
	r := request{others["a tenant"], admission.Create, "ipclaims", claim}
	expect(t, r.denied(t, policies(t)), "Warn: spec.poolSelector is deprecated: name a class by spec.className")
}

func TestPolicies_FailClosedAndTakeNoParameters(t *testing.T) {
	for name, p := range policies(t) {
		if p.spec.ParamKind != nil {
			t.Errorf("%s has a paramKind, which crashes kcp", name)
		}
		if p.spec.FailurePolicy == nil || *p.spec.FailurePolicy != admissionregistrationv1.Fail {
			t.Errorf("%s admits what it cannot judge", name)
		}
		if len(p.spec.MatchConstraints.ResourceRules) != 1 {
			t.Errorf("%s has more than one rule, which these tests do not expect", name)
		}
	}
}
