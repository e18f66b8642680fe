package simkcp

import (
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// compiler compiles the expressions of policies and match conditions.
var compiler = sync.OnceValue(func() cel.ConditionCompiler {
	return cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
})

// evaluator panics on an expression that does not compile.
func evaluator(expressions []cel.ExpressionAccessor) cel.ConditionEvaluator {
	compiled := compiler().CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	for _, err := range compiled.CompilationErrors() {
		panic(err)
	}
	return compiled
}

// matcherOf compiles match conditions.
func matcherOf(name string, conditions []admissionregistrationv1.MatchCondition) matchconditions.Matcher {
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	return matchconditions.NewMatcher(evaluator(expressions), new(admissionregistrationv1.Fail), "policy", "validate", name)
}

// matchers keeps compiled match conditions. It is safe for concurrent use.
type matchers struct {
	mu       sync.Mutex
	compiled map[string]matchconditions.Matcher
}

// compiled are the conditions that any world of the process has met.
var compiled matchers

// matcher returns the compiled conditions, whose JSON is the key.
func (m *matchers) matcher(key string, conditions []admissionregistrationv1.MatchCondition) matchconditions.Matcher {
	m.mu.Lock()
	defer m.mu.Unlock()
	matcher, ok := m.compiled[key]
	if !ok {
		if m.compiled == nil {
			m.compiled = map[string]matchconditions.Matcher{}
		}
		matcher = matcherOf("webhook", conditions)
		m.compiled[key] = matcher
	}
	return matcher
}

// The users that the world knows. Any other name is a user without rights of the system.
const (
	userController = "controller"
	userMasters    = "masters"
)

// info returns a user as admission sees it.
func info(name string) user.Info {
	switch name {
	case userController:
		return &user.DefaultInfo{
			Name:   "system:serviceaccount:ipam-system:ipam-controller",
			Groups: []string{"system:serviceaccounts", "system:authenticated"},
			Extra: map[string][]string{
				"authentication.kcp.io/cluster-name": {Platform},
				"authentication.kcp.io/scopes":       {"cluster:" + Platform},
			},
		}
	case userMasters:
		return &user.DefaultInfo{Name: "system:apiserver", Groups: []string{"system:masters"}}
	}
	return &user.DefaultInfo{Name: name, Groups: []string{"system:authenticated"}}
}

// attributes returns a request as policies and match conditions see it.
func (q request) attributes(op admission.Operation, o, old *unstructured.Unstructured) *admission.VersionedAttributes {
	of := q.gvk(q.version)
	a := &admission.VersionedAttributes{VersionedKind: of}
	if o != nil {
		a.VersionedObject = o
	}
	if old != nil {
		a.VersionedOldObject = old
	}
	a.Attributes = admission.NewAttributesRecord(a.VersionedObject, a.VersionedOldObject, of, q.namespace, q.name,
		of.GroupVersion().WithResource(q.plural), q.subresource, op, nil, q.dry, info(q.user))
	return a
}

// matches reports whether a rule is about a request.
func matches(rule admissionregistrationv1.RuleWithOperations, q request, op admission.Operation) bool {
	resource := strings.TrimSuffix(q.plural+"/"+q.subresource, "/")
	return has(rule.Operations, admissionregistrationv1.OperationType(op)) && has(rule.APIGroups, q.group) &&
		has(rule.APIVersions, q.version) && has(rule.Resources, resource)
}

// has reports whether a list has a word, or a star.
func has[T ~string](list []T, word T) bool {
	for _, one := range list {
		if one == word || one == "*" {
			return true
		}
	}
	return false
}
