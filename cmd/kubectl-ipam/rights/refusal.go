package rights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
)

// Refusal is a request that a server refused since its user may not make it.
type Refusal struct {
	User, Verb, Resource, Group string
	// Namespace is empty for an object without one, and for a request about all namespaces.
	Namespace string
}

// refused matches what API servers say of such a request.
var refused = regexp.MustCompile(`User "([^"]+)" cannot (\w+) (?:resource "([^"]+)" in API group "([^"]*)"|path)(?: in the namespace "([^"]+)")?`)

// RefusalOf returns the request that an error refuses. It is false for an error of another kind, such as the
// refusal of a quota or of a policy: more rights would change nothing.
func RefusalOf(err error) (Refusal, bool) {
	if !apierrors.IsForbidden(err) {
		return Refusal{}, false
	}
	said := refused.FindStringSubmatch(err.Error())
	if said == nil {
		return Refusal{}, false
	}
	return Refusal{User: said[1], Verb: said[2], Resource: said[3], Group: said[4], Namespace: said[5]}, true
}

// For returns the refusal with the verb that the user needs in the end, if the refused request is one that reads: with the
// right to read alone, the next request would be refused.
func (r Refusal) For(verb string) Refusal {
	if verb != "" && slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
		r.Verb = verb
	}
	return r
}

// Remedy returns the way to the right to make the request in a place; empty if no role of this API gives it.
func (r Refusal) Remedy(at Place) string {
	switch {
	case r.User == "system:anonymous":
		return "log in: the server does not know who you are"
	case at == Closed:
		return fmt.Sprintf("you cannot enter this workspace, if there is one: an admin of it can run kubectl ipam grant ROLE %s; "+
			"--context or --server names another one", r.subject())
	case r.Group != ipamv1alpha1.GroupName:
		return ""
	}
	roles, _ := Roles(at)
	for _, role := range roles {
		if role.allows(r.Verb, r.Resource) {
			return "an admin of " + here(at) + " can run kubectl ipam grant " + role.Name + " " + r.subject() + r.scope(at, role)
		}
	}
	switch {
	case at == Tenant && r.Resource == "ipclasses":
		return "classes are changed by the platform's admins; here they can only be read"
	case at == Platform && r.Resource == "ipclaims":
		return "no role of the platform's workspace allows it: claim in the workspace of a tenant, which --context or --server names"
	case r.Resource == "ipallocations", strings.Contains(r.Resource, "/"):
		return "only the controller does that"
	}
	return ""
}

func here(at Place) string {
	if at == Cluster {
		return "this cluster"
	}
	return "this workspace"
}

// subject returns the user as a flag of kubectl ipam grant.
func (r Refusal) subject() string {
	if r.User == "" {
		return "--user NAME"
	}
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"); ok {
		return "--serviceaccount " + legible.Argument(account)
	}
	return "--user " + legible.Argument(r.User)
}

// scope says where the role is enough. Without kcp the namespaces are the tenants.
func (r Refusal) scope(at Place, role Role) string {
	switch {
	case at != Cluster || !role.InNamespace:
		return ""
	case r.Namespace == "":
		return " --all-namespaces"
	}
	return " --namespace " + r.Namespace
}
