package door

import (
	"cmp"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// The paths of the door. All except the last stand below the token. By pathDecide, pathDrained, pathReleased,
// pathClosed, pathRetired and pathClassed a replica asks the leader; the API server does not know these six.
const (
	pathAnswer   = "answer"
	pathKeep     = "keep"
	pathDecide   = "decide"
	pathDrained  = "drained"
	pathReleased = "released"
	pathClosed   = "closed"
	pathRetired  = "retired"
	pathClassed  = "class-retired"
	pathDrain    = "drain"
	pathRelease  = "release"
	pathClose    = "close"
	pathRetire   = "retire"
	pathClass    = "retire-class"
	pathRefuse   = "refuse"
)

// registrationName is the name of both configurations.
const registrationName = ipamv1alpha1.GroupName

// registration is what the API server is told about the door.
type registration struct {
	endpoint Endpoint
	token    string
	bundle   []byte
	// namespace is the namespace of the ConfigMap that tells people where the door is; serves says that there is one.
	namespace string
	serves    bool
	// controller is the user name of the controller.
	controller string
	// platform is the logical cluster that the controller comes from; empty without kcp.
	platform ledger.ClusterName
}

// The functions below set each field that the API server would set by default. So what the API server has stored can be
// compared with what they return.

func (r registration) mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		TypeMeta:   typeMeta("MutatingWebhookConfiguration"),
		ObjectMeta: metav1.ObjectMeta{Name: registrationName},
		Webhooks: []admissionregistrationv1.MutatingWebhook{
			r.answer(), r.keep(), r.drain(), r.release(), r.closeRange(), r.retirePool(), r.retireClass(),
		},
	}
}

func (r registration) validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   typeMeta("ValidatingWebhookConfiguration"),
		ObjectMeta: metav1.ObjectMeta{Name: registrationName},
		Webhooks:   []admissionregistrationv1.ValidatingWebhook{r.refuse()},
	}
}

// address returns the ConfigMap by which people find the door. It has no token.
func (r registration) address() *corev1.ConfigMap {
	data := map[string]string{lookup.URL: r.endpoint.base()}
	if len(r.bundle) > 0 {
		data[lookup.CA] = string(r.bundle)
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: lookup.Address, Namespace: r.namespace},
		Data:       data,
	}
}

// all returns the objects that tell the API server, and people, where the door is.
func (r registration) all() []client.Object {
	all := []client.Object{r.mutating(), r.validating()}
	if r.serves {
		all = append(all, r.address())
	}
	return all
}

// hook has the fields in which the mutating webhooks differ.
type hook struct {
	path      string
	operation admissionregistrationv1.OperationType
	// resource is the plural of a kind. Default: ipclaims.
	resource string
	// effects are the side effects. Default: none on a dry run.
	effects admissionregistrationv1.SideEffectClass
	// timeout is how long the API server waits. Default: the timeout of a CREATE.
	timeout    time.Duration
	conditions []admissionregistrationv1.MatchCondition
}

// webhook returns a webhook as it is registered. It is called for exactly one version of the API: for another version,
// its answer would be dropped. It is not called again when another webhook changes the object.
func (r registration) webhook(h hook) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name:                    h.path + "." + registrationName,
		ClientConfig:            r.endpoint.at(r.token+"/"+h.path, r.bundle),
		Rules:                   rules(h.operation, cmp.Or(h.resource, "ipclaims")),
		FailurePolicy:           new(admissionregistrationv1.Ignore),
		MatchPolicy:             new(admissionregistrationv1.Exact),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(cmp.Or(h.effects, admissionregistrationv1.SideEffectClassNoneOnDryRun)),
		TimeoutSeconds:          seconds(cmp.Or(h.timeout, timeout)),
		AdmissionReviewVersions: reviewVersions(),
		ReinvocationPolicy:      new(admissionregistrationv1.NeverReinvocationPolicy),
		MatchConditions:         h.conditions,
	}
}

// answer returns the webhook for every claim that is created.
func (r registration) answer() admissionregistrationv1.MutatingWebhook {
	return r.webhook(hook{path: pathAnswer, operation: admissionregistrationv1.Create})
}

// keep returns the webhook for updates of a claim that change its status, unless the system makes them. It is not
// called for other updates, because a call makes an update take half as long again.
func (r registration) keep() admissionregistrationv1.MutatingWebhook {
	return r.webhook(hook{
		path: pathKeep, operation: admissionregistrationv1.Update, effects: admissionregistrationv1.SideEffectClassNone,
		conditions: append(only("status-differs", "object.?status.orValue({}) != oldObject.?status.orValue({})"),
			r.notTheSystem()...),
	})
}

// drain returns the webhook for the DELETE of a pool that shows blocks. It changes nothing, but is a mutating webhook,
// because these are called before the policies, which decide.
func (r registration) drain() admissionregistrationv1.MutatingWebhook {
	inUse := fmt.Sprintf("oldObject.?status.?conditions.orValue([]).exists(c, c.type == '%s' && c.status == 'True')",
		ipamv1alpha1.ConditionInUse)
	return r.webhook(hook{
		path: pathDrain, operation: admissionregistrationv1.Delete,
		resource: "ippools", effects: admissionregistrationv1.SideEffectClassNone,
		timeout: drainTimeout, conditions: append(only("in-use", inUse), r.notTheSystem()...),
	})
}

// release returns the webhook for the DELETE of an IPAllocation that has a claim. It is called before the policy, which
// refuses such a DELETE. It is not called when a namespace is deleted: the IPAllocation then goes together with its
// claim.
func (r registration) release() admissionregistrationv1.MutatingWebhook {
	return r.webhook(hook{
		path: pathRelease, operation: admissionregistrationv1.Delete, resource: "ipallocations", timeout: releaseTimeout,
		conditions: append(only("has-a-claim", "has(oldObject.spec.claimRef)"), append(r.notTheSystem(), notTheCluster)...),
	})
}

// closeRange returns the webhook for the DELETE of a claim that holds a range. It is not called when a namespace is
// deleted.
func (r registration) closeRange() admissionregistrationv1.MutatingWebhook {
	ranged := fmt.Sprintf("oldObject.?spec.?target.orValue('') == '%s'", ipamv1alpha1.TargetScopeRange)
	return r.webhook(hook{
		path: pathClose, operation: admissionregistrationv1.Delete, timeout: releaseTimeout,
		conditions: append(only("holds-a-range", ranged), append(r.notTheSystem(), notTheCluster)...),
	})
}

// retirePool returns the webhook for the DELETE of a pool that a class has made. It is called before the policy, which
// refuses the DELETE if the status says that the pool is in use.
func (r registration) retirePool() admissionregistrationv1.MutatingWebhook {
	return r.webhook(hook{
		path: pathRetire, operation: admissionregistrationv1.Delete, resource: "ippools", timeout: releaseTimeout,
		conditions: append(only("made-by-a-class", "has(oldObject.spec.classRef)"), r.notTheSystem()...),
	})
}

// retireClass returns the webhook for the DELETE of a class that makes pools.
func (r registration) retireClass() admissionregistrationv1.MutatingWebhook {
	return r.webhook(hook{
		path: pathClass, operation: admissionregistrationv1.Delete, resource: "ipclasses",
		effects: admissionregistrationv1.SideEffectClassNone, timeout: releaseTimeout,
		conditions: append(only("makes-pools", "size(oldObject.spec.?poolPer.orValue([])) > 0"), r.notTheSystem()...),
	})
}

// only returns a list of one condition.
func only(name, expression string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: name, Expression: expression}}
}

// notTheCluster exempts the controllers that delete all of a namespace. On kcp any tenant can use these names, and
// gains only that its own DELETE does not wait.
var notTheCluster = admissionregistrationv1.MatchCondition{
	Name: "not-the-namespace-controller",
	Expression: "!(request.userInfo.username in ['system:serviceaccount:kube-system:namespace-controller'," +
		" 'system:serviceaccount:kube-system:generic-garbage-collector', 'system:kube-controller-manager'])",
}

// refuse returns the webhook for the CREATE of a claim that says Refuse and has no answer. If this webhook cannot be
// called, the CREATE fails, and the API server shows the user its URL. So the URL has no token.
func (r registration) refuse() admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name:                    pathRefuse + "." + registrationName,
		ClientConfig:            r.endpoint.at(pathRefuse, r.bundle),
		Rules:                   rules(admissionregistrationv1.Create, "ipclaims"),
		FailurePolicy:           new(admissionregistrationv1.Fail),
		MatchPolicy:             new(admissionregistrationv1.Exact),
		NamespaceSelector:       &metav1.LabelSelector{},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          seconds(timeout),
		AdmissionReviewVersions: reviewVersions(),
		MatchConditions: []admissionregistrationv1.MatchCondition{
			{Name: "says-refuse", Expression: fmt.Sprintf(
				"object.?spec.?unmetPolicy.orValue('') == '%s'", ipamv1alpha1.UnmetRefuse)},
			{Name: "not-answered", Expression: fmt.Sprintf(
				"!object.?status.?conditions.orValue([]).exists(c, c.type == '%s')", ipamv1alpha1.ConditionAllocated)},
		},
	}
}

// notTheSystem exempts the users that may write a status, as the policies do: system:masters, and the controller. On
// kcp any tenant can create a service account of the same name as the controller's, but cannot choose the logical
// cluster that the account comes from.
func (r registration) notTheSystem() []admissionregistrationv1.MatchCondition {
	controller := fmt.Sprintf("request.userInfo.username == '%s'", r.controller)
	if r.platform != "" {
		controller += fmt.Sprintf(" && request.userInfo.?extra[?'authentication.kcp.io/cluster-name'].orValue([]) == ['%s']"+
			" && request.userInfo.?extra[?'authentication.kcp.io/scopes'].orValue([]) == ['cluster:%s']", r.platform, r.platform)
	}
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-the-masters", Expression: "!('system:masters' in request.userInfo.?groups.orValue([]))"},
		{Name: "not-the-controller", Expression: "!(" + controller + ")"},
	}
}

// rules returns the rules that match an operation on a resource of v1alpha1, and not on its subresources.
func rules(
	operation admissionregistrationv1.OperationType, resource string,
) []admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.NamespacedScope
	if resource == "ippools" || resource == "ipclasses" {
		scope = admissionregistrationv1.ClusterScope
	}
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{
			APIGroups:   []string{ipamv1alpha1.GroupName},
			APIVersions: []string{ipamv1alpha1.GroupVersion.Version},
			Resources:   []string{resource},
			Scope:       &scope,
		},
	}}
}

func seconds(d time.Duration) *int32 { return new(int32(d.Seconds())) }

func reviewVersions() []string { return []string{"v1"} }

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}
