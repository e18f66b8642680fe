// Package rights knows the roles of this API: which roles a place has, and which of them a refused request needs.
package rights

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// Place is a kind of workspace or cluster. The zero value stands for an unknown kind.
type Place string

const (
	// Closed is a workspace that the caller cannot enter. A workspace that does not exist looks the same.
	Closed Place = "a workspace that you cannot enter"
	// Unbound is a workspace that does not serve the API.
	Unbound Place = "a workspace without the IPAM API"
	// Tenant is the workspace of a tenant.
	Tenant Place = "the workspace of a tenant"
	// Platform is the workspace of the platform.
	Platform Place = "the workspace of the platform"
	// Cluster is a cluster without kcp.
	Cluster Place = "a cluster without kcp"
)

// Find asks the server which kind of place it serves. It returns an error if the server does not answer.
func Find(server discovery.ServerResourcesInterface) (Place, error) {
	served, err := server.ServerResourcesForGroupVersion(ipamv1alpha1.GroupVersion.String())
	switch {
	case apierrors.IsForbidden(err):
		return Closed, nil
	case apierrors.IsNotFound(err):
		return Unbound, nil
	case err != nil:
		return "", err
	}
	at := Unbound // kcp answers with an empty list there
	for _, resource := range served.APIResources {
		switch {
		case resource.Name == "ipclasses" && slices.Contains(resource.Verbs, "create"):
			return writable(server)
		case resource.Name == "ipclaims":
			at = Tenant
		}
	}
	return at, nil
}

// writable finds the kind of a place that serves classes. Only tenants cannot write them.
func writable(server discovery.ServerResourcesInterface) (Place, error) {
	_, err := server.ServerResourcesForGroupVersion(apisv1alpha2.SchemeGroupVersion.String())
	switch {
	case apierrors.IsNotFound(err):
		return Cluster, nil
	case err != nil:
		return "", err
	}
	return Platform, nil
}

// Role is a role for people. The tests compare the roles with those in the manifests.
type Role struct {
	// Name is the name of the ClusterRole.
	Name string
	// May says in words what the role allows.
	May string
	// InNamespace is set if the role can be granted in one namespace. All that only this role allows is in namespaces
	// then.
	InNamespace bool
	// places are the places that have the role.
	places []Place
	// reads are the resources that the role allows to read, writes those that it allows to write, and frees those that it
	// allows to delete.
	reads, writes, frees []string
}

// ClassViewer is the role that a user with another role in a single namespace needs, too, in the whole place: classes
// have no namespace.
const ClassViewer = "ipam-class-viewer"

var (
	tenants = []Place{Tenant, Cluster}
	all     = []string{"ipclasses", "ippools", "ipclaims", "ipallocations"}
)

// known are the roles for people. Those that allow less come first.
var known = []Role{
	{Name: ClassViewer, May: "read classes", places: tenants, reads: all[:1]},
	{Name: "ipam-viewer", May: "read everything", InNamespace: true, places: tenants, reads: all},
	{Name: "ipam-tenant-viewer", May: "read everything, and what all tenants have", places: []Place{Platform}, reads: all},
	{Name: "ipam-consumer", May: "write claims, and read everything", InNamespace: true, places: tenants,
		reads: all, writes: []string{"ipclaims"}},
	{Name: "ipam-pool-admin", May: "write pools and claims, delete retained allocations, and read everything",
		places: tenants, reads: all, writes: []string{"ippools", "ipclaims"}, frees: []string{"ipallocations"}},
	{Name: "ipam-class-admin", May: "write classes, and read pools", places: []Place{Platform, Cluster},
		reads: all[:2], writes: all[:1]},
	{Name: "ipam-shared-pool-admin", May: "write pools, and read classes and allocations", places: []Place{Platform},
		reads: []string{"ipclasses", "ippools", "ipallocations"}, writes: []string{"ippools"}},
	{Name: lookup.Role, May: "see who holds and held addresses", places: []Place{Platform, Cluster}},
}

// Roles returns the roles for people in a place. Those that allow less come first. A place that does not serve the API
// has none.
func Roles(at Place) []Role {
	return slices.DeleteFunc(slices.Clone(known), func(r Role) bool { return !slices.Contains(r.places, at) })
}

// reading are the verbs that change nothing.
var reading = []string{"get", "list", "watch"}

// allows reports whether the role allows a verb on a kind of this API.
func (r Role) allows(verb, resource string) bool {
	switch {
	case slices.Contains(reading, verb):
		return slices.Contains(r.reads, resource)
	case strings.HasPrefix(verb, "delete") && slices.Contains(r.frees, resource):
		return true
	}
	return slices.Contains(r.writes, resource)
}

// Refusal is a request that a server has refused because its user has no right to make it.
type Refusal struct {
	User, Verb, Resource, Group string
	// Namespace is empty if the object has none, and if the request is about all namespaces.
	Namespace string
}

// refused matches the message of a server that refuses such a request.
var refused = regexp.MustCompile(`User "([^"]+)" cannot (\w+) ` +
	`(?:resource "([^"]+)" in API group "([^"]*)"|path)(?: in the namespace "([^"]+)")?`)

// RefusalOf returns the request that was refused with this error. It returns false for any other error, such as the
// refusal by a quota or a policy, where more rights would not help.
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

// For returns the refusal with another verb, if the refused request only reads. verb is the verb by which the command
// writes after it has read: with only the right to read, its next request would be refused.
func (r Refusal) For(verb string) Refusal {
	if verb != "" && slices.Contains(reading, r.Verb) {
		r.Verb = verb
	}
	return r
}

// Remedy says how the user can get the right to make the request; empty if no role of this API has this right.
func (r Refusal) Remedy(at Place) string {
	switch {
	case r.User == "system:anonymous":
		return "log in: the server does not know who you are"
	case at == Closed:
		return fmt.Sprintf(
			"you cannot enter this workspace, if there is one: an admin of it can run kubectl ipam grant ROLE %s; "+
				"--context or --server names another one", r.subject())
	case r.Group != ipamv1alpha1.GroupName:
		return ""
	}
	for _, role := range Roles(at) {
		if role.allows(r.Verb, r.Resource) {
			return "an admin of " + here(at) + " can run kubectl ipam grant " + role.Name + " " + r.subject() + r.scope(at, role)
		}
	}
	return r.withoutRole(at)
}

// withoutRole says what to do about a request that no role allows.
func (r Refusal) withoutRole(at Place) string {
	switch {
	case at == Tenant && r.Resource == "ipclasses":
		return "classes are changed by the platform's admins; here they can only be read"
	case at == Platform && r.Resource == "ipclaims":
		return "no role of the platform's workspace allows it: " +
			"claim in the workspace of a tenant, which --context or --server names"
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

// subject returns the user of the request as a flag of kubectl ipam grant.
func (r Refusal) subject() string {
	if r.User == "" {
		return "--user NAME"
	}
	if account, ok := strings.CutPrefix(r.User, "system:serviceaccount:"); ok {
		return "--serviceaccount " + legible.Argument(account)
	}
	return "--user " + legible.Argument(r.User)
}

// scope returns the flag of kubectl ipam grant for the namespaces where the user needs the role. Without kcp, the
// namespaces are the tenants.
func (r Refusal) scope(at Place, role Role) string {
	switch {
	case at != Cluster || !role.InNamespace:
		return ""
	case r.Namespace == "":
		return " --all-namespaces"
	}
	return " --namespace " + r.Namespace
}
