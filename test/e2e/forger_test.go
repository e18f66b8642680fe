package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
	"github.com/kcp-ipam/ipam/test/framework"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/workspaces"
)

// forged is a status that no controller would write. Its values are recognizable, and no test's pool contains the
// block.
const (
	forged    = `{"phase": "Bound", "allocatedCIDR": "203.0.113.0/28", "className": "forged", "conditions": [` + condition + `]}`
	condition = `{"type": "Allocated", "status": "True", "reason": "Forged", "message": "forged", "lastTransitionTime": "2026-01-01T00:00:00Z"}`
)

// marks are texts that occur in forged, and in no other status.
var marks = []string{"203.0.113.", "forged", "Forged"}

// attack is a request that tries to store a forged status, or to remove the real one.
type attack struct {
	name    string
	verb    string // POST unless set
	at      string // the path after the collection of claims: nothing, /NAME or /NAME/status
	version string // v1alpha1 unless set
	query   string // such as fieldManager=x&force=true
	kind    string // the content type; JSON unless set
	body    string // send replaces the words in capitals
}

const (
	asMerge = "application/merge-patch+json"
	asJSON  = "application/json-patch+json"
	asApply = "application/apply-patch+yaml"
	asYAML  = "application/yaml"
	second  = "v1controller1"
)

// forger sends requests as one user, including requests that no client library would build.
type forger struct {
	*testing.T
	who    string
	rest   *rest.RESTClient
	client client.Client
}

func newForger(t *testing.T, who string, access *rest.Config) forger {
	t.Helper()
	c := must.Get(workspaces.NewClient(access))(t)
	access = rest.CopyConfig(access)
	access.QPS = -1
	access.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	raw := must.Get(rest.UnversionedRESTClientFor(access))(t)
	return forger{T: t, who: who, rest: raw, client: c}
}

// send sends an attack on a claim. The claim is as it was last read, or as it would be created.
func (f forger) send(a attack, claim *ipamv1alpha1.IPClaim) error {
	f.Helper()
	version, verb, kind := a.version, a.verb, a.kind
	if version == "" {
		version = ipamv1alpha1.GroupVersion.Version
	}
	if verb == "" {
		verb = "POST"
	}
	if kind == "" {
		kind = "application/json"
	}
	fill := strings.NewReplacer("NAME", claim.Name, "VERSION", ipamv1alpha1.GroupName+"/"+version, "REVISION", claim.ResourceVersion,
		"FORGED", forged, "CONDITION", condition, "SPEC", text(f.T, claim.Spec), "STATUS", text(f.T, claim.Status))
	request := f.rest.Verb(verb).
		AbsPath("/apis", ipamv1alpha1.GroupName, version, "namespaces/default/ipclaims"+fill.Replace(a.at)).
		SetHeader("Content-Type", kind).Body([]byte(fill.Replace(a.body)))
	for pair := range strings.SplitSeq(a.query, "&") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			request.Param(key, value)
		}
	}
	return request.Do(f.Context()).Error()
}

// creates sends attacks that create claims. It fails the test if a forged value is stored, whatever the server
// answers, or if anything is stored in the second version. It returns how many claims were stored without the status.
func (f forger) creates(attacks []attack) (stored int) {
	f.Helper()
	for i, a := range attacks {
		claim := gen.Claim(fmt.Sprintf("made-by-%d", i), gen.FromPool("none"), gen.Length(28))
		err := f.send(a, claim)
		read := f.client.Get(f.Context(), client.ObjectKeyFromObject(claim), claim)
		switch {
		case apierrors.IsNotFound(read):
			if err == nil && !strings.Contains(a.query, "dryRun") && !strings.Contains(a.body, "generateName") {
				f.Errorf("%s, %s: the server stored nothing and reported no error", f.who, a.name)
			}
			continue
		case read != nil:
			f.Fatalf("%s, %s: read the claim: %v", f.who, a.name, read)
		}
		if a.version == second {
			f.Errorf("%s, %s: the claim is stored; want it refused, as nobody answers a CREATE in %s", f.who, a.name, second)
		}
		stored++
		f.isGenuine(a.name, claim)
		framework.Delete(f, f.client, claim)
	}
	claims := &ipamv1alpha1.IPClaimList{}
	must.Do(f, f.client.List(f.Context(), claims, client.InNamespace("default")))
	for i := range claims.Items {
		f.isGenuine("any of them", &claims.Items[i])
	}
	return stored
}

// changes sends attacks on a bound claim. It fails the test if the status changes, whatever the server answers. It
// leaves the claim as last read.
func (f forger) changes(claim *ipamv1alpha1.IPClaim, attacks []attack) {
	f.Helper()
	for _, a := range attacks {
		was := text(f.T, claim.Status)
		err := f.send(a, claim)
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			f.Fatalf("%s, %s: read the claim: %v", f.who, a.name, err)
		}
		if is := text(f.T, claim.Status); was != is {
			f.Errorf("%s, %s (answered %v): the status changed from\n%s\nto\n%s", f.who, a.name, err, was, is)
		}
	}
}

// isGenuine fails the test if a claim has anything of the forged status.
func (f forger) isGenuine(what string, claim *ipamv1alpha1.IPClaim) {
	f.Helper()
	status := text(f.T, claim.Status)
	for _, mark := range marks {
		if strings.Contains(status, mark) {
			f.Errorf("%s, %s: claim %s has the status\n%s\nwant nothing of %s", f.who, what, claim.Name, status, mark)
			return
		}
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	data := must.Get(json.Marshal(value))(t)
	return string(data)
}

// No user can create a claim with a status: not the owner of the workspace, not kcp's admin, and not a service
// account with the controller's name. Some attacks are refused, and others create a claim without the status.
func TestForgery_CreatesNoClaimWithAStatus(t *testing.T) {
	t.Parallel()
	tenant := framework.SharedPlatform(t).Tenant(t)
	for _, f := range forgersOf(t, tenant) {
		if stored := f.creates(attacksOnCreate); stored == 0 {
			t.Errorf("%s: no attack created a claim; want one of those whose status the webhook removes", f.who)
		}
	}
}

// No user can change or remove the status of a bound claim.
func TestForgery_ChangesNoBoundClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.class()
	s.pool(s.cidr)
	claim := s.holds("web", gen.Length(28))
	for _, f := range forgersOf(t, s.tenant) {
		f.changes(claim, attacksOnChange)
	}
	framework.Update(t, s.tenant, claim, func(claim *ipamv1alpha1.IPClaim) { claim.Labels = map[string]string{"a": "b"} })
	framework.WaitBound(t, s.tenant, claim)
}

// forgersOf returns the users with the most rights in a tenant's workspace.
func forgersOf(t *testing.T, tenant *framework.Tenant) []forger {
	t.Helper()
	admin := workspaces.At(framework.AdminConfig(t), tenant.Path)
	namesake(t, tenant, tenant.Owner(t))
	account := staticConfig(t, tenant)
	requested := must.Get(workspaces.TokenConfig(t.Context(), admin, time.Hour))(t)
	return []forger{
		newForger(t, "the owner", tenant.OwnerConfig(t)),
		newForger(t, "kcp's admin", admin),
		newForger(t, "a namesake of the controller", account),
		newForger(t, "a namesake with a token that it requested", requested),
	}
}

// written returns a claim in the version in which the controller writes its status.
func written(claim *ipamv1alpha1.IPClaim) *v1controller1.IPClaim {
	return &v1controller1.IPClaim{IPClaim: *claim.DeepCopy()}
}
