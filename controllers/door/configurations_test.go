package door

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

var (
	tenant     = &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}
	masters    = &user.DefaultInfo{Name: "kcp", Groups: []string{"system:masters"}}
	controller = accountFrom("p1", "cluster:p1")
)

// accountFrom returns a service account of a logical cluster that has the same name as the controller's.
func accountFrom(cluster string, scopes ...string) *user.DefaultInfo {
	return &user.DefaultInfo{Name: registered.controller, Extra: map[string][]string{
		"authentication.kcp.io/cluster-name": {cluster}, "authentication.kcp.io/scopes": scopes,
	}}
}

// called reports whether a server calls a webhook with these conditions.
func called(t *testing.T, conditions []admissionregistrationv1.MatchCondition, by user.Info, object, old string) bool {
	t.Helper()
	compiler := cel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	expressions := make([]cel.ExpressionAccessor, len(conditions))
	for i := range conditions {
		expressions[i] = (*matchconditions.MatchCondition)(&conditions[i])
	}
	compiled := compiler.CompileCondition(expressions, cel.OptionalVariableDeclarations{HasAuthorizer: true}, environment.StoredExpressions)
	for _, err := range compiled.CompilationErrors() {
		t.Fatal(err)
	}
	attributes := &admission.VersionedAttributes{VersionedObject: parse(t, object)}
	if old != "" {
		attributes.VersionedOldObject = parse(t, old)
	}
	attributes.VersionedKind = ipamv1alpha1.GroupVersion.WithKind("IPClaim")
	attributes.Attributes = admission.NewAttributesRecord(attributes.VersionedObject, attributes.VersionedOldObject,
		attributes.VersionedKind, "default", "a", ipamv1alpha1.GroupVersion.WithResource("ipclaims"), "", admission.Create, nil, false, by)
	result := matchconditions.NewMatcher(compiled, new(admissionregistrationv1.Fail), "webhook", "admit", "test").
		Match(t.Context(), attributes, nil, nil)
	if result.Error != nil {
		t.Fatal(result.Error)
	}
	return result.Matches
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	must.Do(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

// The webhook keep is called for an UPDATE that changes the status, unless the system writes.
func TestKeep_IsCalledIfAUserChangesTheStatus(t *testing.T) {
	const without, empty, bound, forged, absurd = `spec: {}`, `{spec: {}, status: {}}`, `{spec: {}, status: {phase: Bound}}`, `{spec: {}, status: {phase: Error}}`, `{spec: {}, status: x}`
	for name, tt := range map[string]struct {
		by       user.Info
		from, to string
		want     bool
	}{
		"unchanged":                        {tenant, bound, bound, false},
		"sent as empty":                    {tenant, without, empty, false},
		"forged":                           {tenant, bound, forged, true},
		"added":                            {tenant, without, forged, true},
		"removed":                          {tenant, bound, without, true},
		"absurd":                           {tenant, bound, absurd, true},
		"by the controller":                {controller, bound, forged, false},
		"by kcp":                           {masters, bound, forged, false},
		"by an account of the same name":   {accountFrom("t1", "cluster:t1"), bound, forged, true},
		"by one that impersonates it":      {accountFrom("p1", "cluster:p1", "cluster:t1"), bound, forged, true},
		"by one without a logical cluster": {&user.DefaultInfo{Name: registered.controller}, bound, forged, true},
	} {
		if got := called(t, registered.keep().MatchConditions, tt.by, tt.to, tt.from); got != tt.want {
			t.Errorf("a status %s: called is %t, want %t", name, got, tt.want)
		}
	}
	alone := registered
	alone.platform = ""
	if called(t, alone.keep().MatchConditions, &user.DefaultInfo{Name: registered.controller}, forged, bound) {
		t.Error("without kcp keep is called when the controller writes")
	}
}

// The webhook refuse is called for claims that say Refuse and that nobody has answered.
func TestRefuse_IsCalledForUnansweredClaimsThatSayRefuse(t *testing.T) {
	for object, want := range map[string]bool{
		`spec: {}`:                    false,
		`{}`:                          false,
		`spec: {unmetPolicy: Wait}`:   false,
		`spec: {unmetPolicy: Refuse}`: true,
		`{spec: {unmetPolicy: Refuse}, status: {}}`:                                               true,
		`{spec: {unmetPolicy: Refuse}, status: {conditions: []}}`:                                 true,
		`{spec: {unmetPolicy: Refuse}, status: {conditions: [{type: Ready, status: Unknown}]}}`:   true,
		`{spec: {unmetPolicy: Refuse}, status: {conditions: [{type: Allocated}]}}`:                false,
		`{spec: {unmetPolicy: Refuse}, status: {conditions: [{type: Ready}, {type: Allocated}]}}`: false,
	} {
		if got := called(t, registered.refuse().MatchConditions, tenant, object, ""); got != want {
			t.Errorf("%s: called is %t, want %t", object, got, want)
		}
	}
}

// All URLs have the token except that of refuse, which kcp shows to tenants. If the door is away, only refuse fails the
// request.
func TestRegistration_ShowsTenantsNoToken(t *testing.T) {
	for _, webhook := range registered.mutating().Webhooks {
		if url := *webhook.ClientConfig.URL; !strings.HasPrefix(url, "https://ipam.example.org:9443/secret/") || *webhook.FailurePolicy != admissionregistrationv1.Ignore {
			t.Errorf("%s is at %s with policy %s, want the token and Ignore", webhook.Name, url, *webhook.FailurePolicy)
		}
	}
	refuse := registered.refuse()
	if url := *refuse.ClientConfig.URL; url != "https://ipam.example.org:9443/refuse" || *refuse.FailurePolicy != admissionregistrationv1.Fail {
		t.Errorf("refuse is at %s with policy %s, want no token and Fail", url, *refuse.FailurePolicy)
	}
}

func TestEndpoint_IsAURLOrAService(t *testing.T) {
	for text, host := range map[string]string{
		"https://127.0.0.1:9443":        "127.0.0.1",
		"https://[2001:db8::1]:9443/":   "2001:db8::1",
		"https://ipam.example.org/a/":   "ipam.example.org",
		"http://ipam.example.org":       "",
		"ipam.example.org:9443":         "",
		"https://user@ipam.example.org": "",
		"https://ipam.example.org?x=y":  "",
		"https://":                      "",
	} {
		endpoint, err := ParseURL(text)
		if (err == nil) != (host != "") || endpoint.host() != host || strings.HasSuffix(endpoint.URL, "/") {
			t.Errorf("ParseURL(%s) = %+v of host %q, %v; want host %q", text, endpoint, endpoint.host(), err, host)
		}
	}
	for text, host := range map[string]string{
		"ipam-system/ipam-webhook":      "ipam-webhook.ipam-system.svc",
		"ipam-system/ipam-webhook:9443": "ipam-webhook.ipam-system.svc",
		"ipam-webhook":                  "",
		"a/b/c":                         "",
		"a/b:0":                         "",
		"a/b:99999":                     "",
		"a/b:":                          "",
	} {
		endpoint, err := ParseService(text)
		if (err == nil) != (host != "") || err == nil && endpoint.host() != host {
			t.Errorf("ParseService(%s) = %+v, %v; want host %q", text, endpoint.Service, err, host)
		}
	}
	endpoint := must.Get(ParseService("ipam-system/ipam-webhook"))(t)
	config := endpoint.at("t/answer", []byte("PEM"))
	if config.URL != nil || *config.Service.Path != "/t/answer" || *config.Service.Port != 443 {
		t.Errorf("the client config is %+v, want service ipam-system/ipam-webhook, port 443, path /t/answer", config)
	}
}
