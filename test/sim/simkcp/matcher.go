package simkcp

import (
	"context"
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

// matching has the compiled match conditions of a policy or a webhook. It is safe for concurrent use.
type matching struct {
	ofUser  matchconditions.Matcher // those that read only the user of the request
	ofRest  matchconditions.Matcher
	matched sync.Map // whether a user of that name fulfils ofUser
}

// matchingOf compiles match conditions.
func matchingOf(name string, list []admissionregistrationv1.MatchCondition) *matching {
	var ofUser, ofRest []admissionregistrationv1.MatchCondition
	for _, c := range list {
		beside := strings.ReplaceAll(c.Expression, "request.userInfo", "")
		if strings.Contains(beside, "request") || strings.Contains(strings.ToLower(beside), "object") {
			ofRest = append(ofRest, c)
		} else {
			ofUser = append(ofUser, c)
		}
	}
	return &matching{ofUser: matcherOf(name, ofUser), ofRest: matcherOf(name, ofRest)}
}

// match reports whether a request of a user fulfils the conditions. The result of ofUser is kept for each user.
func (c *matching) match(ctx context.Context, by string, a *admission.VersionedAttributes) (bool, error) {
	known, ok := c.matched.Load(by)
	if !ok {
		result := c.ofUser.Match(ctx, a, nil, nil)
		if result.Error != nil {
			return false, result.Error
		}
		known = result.Matches
		c.matched.Store(by, known)
	}
	if known == false {
		return false, nil
	}
	result := c.ofRest.Match(ctx, a, nil, nil)
	return result.Matches, result.Error
}

// matchers keeps compiled match conditions. It is safe for concurrent use.
type matchers struct {
	mu       sync.Mutex
	compiled map[string]*matching
}

// compiled are the conditions that any world of the process has met.
var compiled matchers

// matcher returns the compiled conditions, whose JSON is the key.
func (m *matchers) matcher(key string, list []admissionregistrationv1.MatchCondition) *matching {
	m.mu.Lock()
	defer m.mu.Unlock()
	matcher, ok := m.compiled[key]
	if !ok {
		if m.compiled == nil {
			m.compiled = map[string]*matching{}
		}
		matcher = matchingOf("webhook", list)
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

// attributes returns a request in the form in which policies and match conditions read it.
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
