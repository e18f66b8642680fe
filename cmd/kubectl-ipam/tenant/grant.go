package tenant

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/legible"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/output"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/request"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

// grant is kubectl ipam grant.
type grant struct {
	*session.Session
	output output.Printer
	dryRun string
	role   string
	// users, groups and accounts get the role. An account is written as NAMESPACE:NAME.
	users, groups, accounts []string
	// everywhere is the flag --all-namespaces. namespace is that of --namespace; empty if it was not given.
	everywhere bool
	namespace  string
	at         rights.Place
	workspace  string
}

// NewGrant makes kubectl ipam grant.
func NewGrant(s *session.Session) *cobra.Command {
	o := &grant{Session: s}
	cmd := &cobra.Command{
		Use:   "grant ROLE (--user NAME | --group NAME | --serviceaccount NAMESPACE:NAME)",
		Short: "Give users a role of the IPAM API in this workspace, and let them enter it",
		Long: `Give users, groups or service accounts a role of the IPAM API in the current workspace. On kcp,
also let them enter the workspace, without which no role has an effect. The command can be
repeated, and changes nothing that is not named in it.

In the workspace of a tenant and in a cluster without kcp:
  ipam-viewer              read everything
  ipam-consumer            also write claims
  ipam-pool-admin          also write pools, and delete retained allocations
In the workspace of the platform, and the first two in a cluster without kcp:
  ipam-class-admin         write classes, and read pools
  ipam-history-viewer      see who holds and held addresses: kubectl ipam history
  ipam-shared-pool-admin   write pools, and read classes and allocations
  ipam-tenant-viewer       read everything, and what all tenants have

With --namespace, a viewer or consumer has the role in that namespace alone, and can read
classes, which have no namespace. In a cluster without kcp the namespaces are the tenants: give
--namespace or --all-namespaces there.

You need the right to create the bindings, as an admin of the workspace has it. To take a role
back, delete the binding that the command names.`,
		Example: `  # let alice claim in the workspace of the tenant team-a
  kubectl ipam --context team-a grant ipam-consumer --user alice

  # without kcp: let zoe claim in one namespace
  kubectl ipam grant ipam-consumer --user zoe --namespace team-b`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.role = args[0]
			if cmd.Flags().Changed("namespace") {
				o.namespace = *s.Flags.Namespace
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.FixedCompletions([]cobra.Completion{
			"ipam-viewer", "ipam-consumer", "ipam-pool-admin", "ipam-class-admin", "ipam-shared-pool-admin",
			"ipam-tenant-viewer", "ipam-history-viewer",
		}, cobra.ShellCompDirectiveNoFileComp),
	}
	o.addFlags(cmd)
	return cmd
}

func (o *grant) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.users, "user", nil, "User who gets the role, as the server names him or her")
	flags.StringSliceVar(&o.groups, "group", nil, "Group that gets the role")
	flags.StringSliceVar(&o.accounts, "serviceaccount", nil, "Service account that gets the role, as NAMESPACE:NAME")
	flags.BoolVarP(&o.everywhere, "all-namespaces", "A", false,
		"Grant the role in all namespaces, which is the default on kcp")
	request.AddDryRun(cmd, &o.dryRun, request.DryRunClient,
		"client: print the manifests and send nothing. server: have the server check them, and store nothing")
	o.output.AddFlags(cmd)
	cmd.MarkFlagsOneRequired("user", "group", "serviceaccount")
}

func (o *grant) run(ctx context.Context) error {
	for _, account := range o.accounts {
		if namespace, name, ok := strings.Cut(account, ":"); !ok || namespace == "" || name == "" {
			return exit.Usagef("--serviceaccount is %q; write NAMESPACE:NAME, such as default:deployer", account)
		}
	}
	c, err := o.enter()
	if err != nil {
		return err
	}
	role, err := o.find()
	if err != nil {
		return err
	}
	if err := o.checkScope(role); err != nil {
		return err
	}
	bindings := o.bindings()
	if o.dryRun != request.DryRunClient {
		if err := o.apply(ctx, c, role, bindings); err != nil {
			return err
		}
	}
	return o.show(role, bindings)
}

// enter finds out in which kind of place the command works.
func (o *grant) enter() (client.Client, error) {
	here, err := o.Here()
	if err != nil {
		return nil, err
	}
	o.workspace = here.Workspace()
	if o.at, err = o.Place(); err != nil {
		return nil, err
	}
	switch o.at {
	case rights.Closed:
		return nil, exit.Fail(exit.Forbidden, "an admin of it can do this; --context or --server names another workspace",
			"you cannot enter this workspace, if there is one")
	case rights.Unbound:
		return nil, exit.Fail(exit.Unavailable, exit.BindIt, "this workspace does not serve the IPAM API")
	case rights.Tenant, rights.Platform, rights.Cluster:
	}
	return here, nil
}

// find returns the role that the user has named. It fails if the place does not have this role.
func (o *grant) find() (rights.Role, error) {
	var names []string
	for _, role := range rights.Roles(o.at) {
		if role.Name == o.role {
			return role, nil
		}
		names = append(names, role.Name)
	}
	return rights.Role{}, exit.Fail(exit.NotFound, "give one of "+strings.Join(names, ", "),
		"there is no role %q in %s", o.role, o.at)
}

// checkScope refuses flags by which the role would apply to more or less than the user meant.
func (o *grant) checkScope(role rights.Role) error {
	switch {
	case o.namespace != "" && o.everywhere:
		return exit.Usagef("--namespace and --all-namespaces exclude each other; give one")
	case o.namespace != "" && !role.InNamespace:
		return exit.Usagef("%s is about objects without a namespace; leave out --namespace", role.Name)
	case o.at == rights.Cluster && role.InNamespace && o.namespace == "" && !o.everywhere:
		return exit.Usagef("the namespaces are the tenants of a cluster without kcp; " +
			"give --namespace NAME, or --all-namespaces")
	}
	return nil
}

// apply writes the bindings, if all of their roles exist.
func (o *grant) apply(ctx context.Context, c client.Client, role rights.Role, bindings []*rbacv1.RoleBinding) error {
	if err := o.checkRole(ctx, c, role.Name); err != nil {
		return err
	}
	if o.namespace != "" {
		if err := o.checkRole(ctx, c, rights.ClassViewer); err != nil {
			return err
		}
	}
	options := []client.ApplyOption{client.FieldOwner("kubectl-ipam"), client.ForceOwnership}
	if o.dryRun == request.DryRunServer {
		options = append(options, client.DryRunAll)
	}
	for _, binding := range bindings {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(binding)
		if err != nil {
			return err
		}
		object := &unstructured.Unstructured{Object: fields}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...); err != nil {
			return needing(fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err),
				"the right to create that, and to grant the role: an admin of the workspace has both")
		}
	}
	return nil
}

// checkRole fails if a role does not exist: a binding to it would be stored, and would grant nothing.
func (o *grant) checkRole(ctx context.Context, c client.Client, name string) error {
	err := c.Get(ctx, client.ObjectKey{Name: name}, &rbacv1.ClusterRole{})
	if !apierrors.IsNotFound(err) {
		return client.IgnoreNotFound(exit.IgnoreUnseen(err))
	}
	hint := "kubectl ipam tenant bind " + o.workspace + " creates it"
	switch o.at {
	case rights.Platform:
		hint = "kubectl ipam init " + o.workspace + " creates it"
	case rights.Cluster:
		hint = "apply the manifests of this version: install-kubernetes.yaml, or ipam-controller --standalone --bootstrap"
	case rights.Tenant, rights.Closed, rights.Unbound:
	}
	return exit.Fail(exit.NotFound, hint, "there is no ClusterRole %s in %s", name, o.at)
}

// show prints the bindings, or says which rights the subjects have now.
func (o *grant) show(role rights.Role, bindings []*rbacv1.RoleBinding) error {
	if o.output.Format == output.Name {
		for _, binding := range bindings {
			screen.Line(o.Out, "%s.%s/%s", strings.ToLower(binding.Kind), rbacv1.GroupName, binding.Name)
		}
		return nil
	}
	if o.output.Given() || o.dryRun != request.DryRunNone {
		return o.output.PrintReport(o.Out, map[string]any{"apiVersion": "v1", "kind": "List", "items": bindings}, nil)
	}
	where := "here"
	switch {
	case o.namespace != "":
		where = "in the namespace " + o.namespace
	case o.workspace != "":
		where = "in " + o.workspace
	}
	for _, subject := range o.subjects() {
		o.Say("%s can %s %s", named(subject), role.May, where)
	}
	for _, binding := range bindings { // in the form that kubectl delete takes
		name := strings.ToLower(binding.Kind) + "/" + binding.Name
		if binding.Namespace != "" {
			name += " in the namespace " + binding.Namespace
		}
		o.Say("applied %s", name)
	}
	return nil
}

// enterRole is the role of kcp that lets a user enter a workspace. Every workspace has it.
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

// named names a subject in words.
func named(subject rbacv1.Subject) string {
	switch subject.Kind {
	case rbacv1.GroupKind:
		return "group " + subject.Name
	case rbacv1.ServiceAccountKind:
		return "service account " + subject.Namespace + ":" + subject.Name
	}
	return "user " + subject.Name
}

// bindings returns the bindings to write. Each has a single subject, so that it can be deleted by itself. They are the
// same each time that the command runs.
func (o *grant) bindings() []*rbacv1.RoleBinding {
	var bindings []*rbacv1.RoleBinding
	for _, subject := range o.subjects() {
		if o.at != rights.Cluster {
			bindings = append(bindings, bindingOf(enterRole, "", subject))
		}
		if o.namespace != "" {
			bindings = append(bindings, bindingOf(rights.ClassViewer, "", subject))
		}
		bindings = append(bindings, bindingOf(o.role, o.namespace, subject))
	}
	return bindings
}

// bindingOf returns the binding of a subject to a role. Without a namespace it is a ClusterRoleBinding, which has the
// same fields.
func bindingOf(role, namespace string, subject rbacv1.Subject) *rbacv1.RoleBinding {
	kind := "RoleBinding"
	if namespace == "" {
		kind = "ClusterRoleBinding"
	}
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: kind},
		ObjectMeta: metav1.ObjectMeta{Name: bindingName(role, subject), Namespace: namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}

// bindingName returns the name of the binding of a role and a subject. It replaces characters that a name cannot have.
// A hash keeps the names of different subjects apart.
func bindingName(role string, subject rbacv1.Subject) string {
	whole := strings.Join([]string{strings.ToLower(subject.Kind), subject.Namespace, subject.Name}, ":")
	name := legible.Text(strings.NewReplacer("/", "-", "%", "-").Replace(whole))
	if name != whole {
		hash := sha256.Sum256([]byte(whole))
		name += "-" + hex.EncodeToString(hash[:])[:8]
	}
	return "ipam:" + strings.TrimPrefix(strings.TrimPrefix(role, "ipam-"), "system:kcp:workspace:") + ":" +
		strings.Replace(name, "::", ":", 1)
}
