package simkcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/kcp-ipam/ipam/config"
)

// policy is a compiled ValidatingAdmissionPolicy that denies.
type policy struct {
	name      string
	rules     []admissionregistrationv1.NamedRuleWithOperations
	matcher   *matching
	validator validating.Validator
}

// policies compiles the policies of package config once for each process, except those that only warn.
var policies = sync.OnceValue(func() (denying []policy) {
	denies := map[string]bool{}
	for binding := range manifests[admissionregistrationv1.ValidatingAdmissionPolicyBinding](config.Policies()) {
		for _, action := range binding.Spec.ValidationActions {
			denies[binding.Spec.PolicyName] = action == admissionregistrationv1.Deny
		}
	}
	for manifest := range manifests[admissionregistrationv1.ValidatingAdmissionPolicy](config.Policies()) {
		if denies[manifest.Name] {
			denying = append(denying, policyOf(manifest))
		}
	}
	return denying
})

func policyOf(manifest *admissionregistrationv1.ValidatingAdmissionPolicy) policy {
	conditions := manifest.Spec.MatchConditions
	for i := range conditions {
		conditions[i].Expression = strings.ReplaceAll(conditions[i].Expression, config.PlatformCluster, Platform)
	}
	validations := make([]cel.ExpressionAccessor, len(manifest.Spec.Validations))
	messages := make([]cel.ExpressionAccessor, len(manifest.Spec.Validations))
	for i, v := range manifest.Spec.Validations {
		validations[i] = &validating.ValidationCondition{Expression: v.Expression, Message: v.Message}
		if v.MessageExpression != "" {
			messages[i] = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
	}
	return policy{
		name: manifest.Name, rules: manifest.Spec.MatchConstraints.ResourceRules, matcher: matchingOf(manifest.Name, conditions),
		validator: validating.NewValidator(evaluator(validations), nil,
			evaluator(nil), evaluator(messages), manifest.Spec.FailurePolicy, nil),
	}
}

// judge returns the refusal of the first policy that denies a request.
func judge(ctx context.Context, q request, a *admission.VersionedAttributes) *apierrors.StatusError {
	for _, p := range policies() {
		asked := false
		for _, rule := range p.rules {
			asked = asked || matches(rule.RuleWithOperations, q, a.GetOperation())
		}
		if !asked {
			continue
		}
		matched, err := p.matcher.match(ctx, q.user, a)
		if err != nil {
			return p.refusal(q, err.Error())
		}
		if !matched {
			continue
		}
		result := p.validator.Validate(ctx, a.GetResource(), a, nil, nil, celconfig.RuntimeCELCostBudget, nil)
		for _, decision := range result.Decisions {
			if decision.Action == validating.ActionDeny {
				return p.refusal(q, decision.Message)
			}
		}
	}
	return nil
}

// refusal returns the answer to a request that the policy denies.
func (p policy) refusal(q request, message string) *apierrors.StatusError {
	refused := apierrors.NewForbidden(q.resource(), q.name,
		fmt.Errorf("ValidatingAdmissionPolicy '%s' with binding '%s' denied request: %s", p.name, p.name, message))
	refused.ErrStatus.Reason = metav1.StatusReasonInvalid
	refused.ErrStatus.Code = http.StatusUnprocessableEntity
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Message: message})
	return refused
}
