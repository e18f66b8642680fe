package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
)

// enterRole is the role of kcp that lets a user enter a workspace. It exists in every one.
const enterRole = "system:kcp:workspace:access"

// subjects returns the users, groups and accounts that get the role.
func (o *grant) subjects() []rbacv1.Subject {
	subjects := make([]rbacv1.Subject, 0, len(o.users)+len(o.groups)+len(o.accounts))
	for _, user := range o.users {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
	}
	for _, group := range o.groups {
		subjects = append(subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
	}
	for _, account := range o.accounts {
		namespace, name, _ := strings.Cut(account, ":")
		subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name})
	}
	return subjects
}

// named returns a subject in words.
func named(subject rbacv1.Subject) string {
	switch subject.Kind {
	case rbacv1.GroupKind:
		return "group " + subject.Name
	case rbacv1.ServiceAccountKind:
		return "service account " + subject.Namespace + ":" + subject.Name
	}
	return "user " + subject.Name
}

// bindings returns all bindings of the grant. Each is of one subject: it can be deleted by itself, and is the
// same however often the command runs.
func (o *grant) bindings() []client.Object {
	var bindings []client.Object
	for _, subject := range o.subjects() {
		if o.at != rights.Cluster {
			bindings = append(bindings, bindingOf(enterRole, subject))
		}
		if o.namespace == "" {
			bindings = append(bindings, bindingOf(o.role, subject))
			continue
		}
		binding := bindingOf(o.role, subject)
		bindings = append(bindings, bindingOf(rights.ClassViewer, subject), &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: binding.APIVersion, Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: binding.Name, Namespace: o.namespace},
			RoleRef:    binding.RoleRef, Subjects: binding.Subjects,
		})
	}
	return bindings
}

// bindingOf gives a role in the whole place.
func bindingOf(role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: bindingName(role, subject)},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}

// bindingName returns the name of the binding of a role and a subject. Characters that no name may have are replaced, and
// the hash tells those subjects apart.
func bindingName(role string, subject rbacv1.Subject) string {
	whole := strings.Join([]string{strings.ToLower(subject.Kind), subject.Namespace, subject.Name}, ":")
	name := legible.Text(strings.NewReplacer("/", "-", "%", "-").Replace(whole))
	if name != whole {
		hash := sha256.Sum256([]byte(whole))
		name += "-" + hex.EncodeToString(hash[:])[:8]
	}
	return "ipam:" + strings.TrimPrefix(strings.TrimPrefix(role, "ipam-"), "system:kcp:workspace:") + ":" + strings.Replace(name, "::", ":", 1)
}

// applied names a binding as kubectl delete takes it.
func applied(binding client.Object) string {
	if _, ok := binding.(*rbacv1.RoleBinding); ok {
		return fmt.Sprintf("rolebinding/%s in the namespace %s", binding.GetName(), binding.GetNamespace())
	}
	return "clusterrolebinding/" + binding.GetName()
}
