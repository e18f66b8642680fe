package check

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/facts"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/internal/plural"
	"github.com/kcp-ipam/ipam/ipamclient"
	"github.com/kcp-ipam/ipam/workspaces"
)

// judge checks for each part of an installation whether it is complete.
func (i *installation) judge() checklist {
	list := checklist{Workspace: i.workspace, Namespace: i.namespace}
	type check struct {
		name  string
		judge func() finished
	}
	checks := []check{
		{"server", i.judgeServer}, {"api", i.judgeAPI}, {"export", i.judgeExport}, {"binding", i.judgeBinding},
		{"version", i.judgeVersion}, {"roles", i.judgeRoles}, {"controller", i.judgeController},
	}
	if i.machines != nil {
		checks = append(checks, check{"machines", i.judgeMachines})
	}
	for _, c := range checks {
		done := c.judge()
		switch {
		case c.name == "server" || i.serverErr == nil:
		case apierrors.IsForbidden(i.serverErr):
			done = skipped("you cannot enter the workspace")
		default:
			done = skipped("the server does not answer")
		}
		done.Check = c.name
		list.Checks = append(list.Checks, done)
	}
	return list
}

func passed(format string, args ...any) finished {
	return finished{Result: checkOK, Found: fmt.Sprintf(format, args...)}
}

func skipped(why string) finished { return finished{Result: checkSkipped, Found: why} }

func failed(code int, found, remedy string) finished {
	return finished{Result: checkFailed, Found: found, Remedy: remedy, code: code}
}

func warned(found, remedy string) finished {
	return finished{Result: checkWarning, Found: found, Remedy: remedy}
}

// failedBy returns a check that failed with an error.
func (i *installation) failedBy(err error) finished {
	remedy := exit.HintOf(err)
	if refusal, ok := rights.RefusalOf(err); ok && remedy == "" {
		remedy = refusal.Remedy(i.place)
	}
	return failed(exit.CodeOf(err), exit.Explain(err), remedy)
}

// unread returns the result of a check of something that the caller cannot read, or that the server does not have.
func (i *installation) unread(what string, err error) finished {
	switch {
	case apierrors.IsForbidden(err):
		return skipped("you cannot read " + what)
	case apierrors.IsNotFound(err):
		return skipped("there is none here")
	default:
		return i.failedBy(err)
	}
}

func (i *installation) judgeServer() finished {
	if apierrors.IsForbidden(i.serverErr) {
		return failed(exit.Forbidden, "it answers, and does not let you enter this workspace",
			rights.Refusal{}.Remedy(rights.Closed))
	}
	if i.serverErr != nil {
		return i.failedBy(i.serverErr)
	}
	return passed("%s", i.server)
}

func (i *installation) judgeAPI() finished {
	if apierrors.IsNotFound(i.servedErr) && i.machines != nil && len(i.machines.claims) > 0 {
		return skipped("the IPAM API is not served here; the pools of IPAddressClaims are in a workspace of kcp")
	}
	if apierrors.IsNotFound(i.servedErr) {
		return failed(exit.Unavailable, "the IPAM API is not served here", exit.BindIt)
	}
	if i.servedErr != nil {
		return i.failedBy(i.servedErr)
	}
	missing := slices.DeleteFunc([]string{"ipclaims", "ipallocations", "ippools"}, func(r string) bool {
		return slices.Contains(i.served, r)
	})
	switch {
	case len(missing) > 0:
		return failed(exit.Unavailable, strings.Join(missing, ", ")+" are not served",
			"ask the platform's admin to run kubectl ipam init with this version")
	case !slices.Contains(i.served, "ipclasses") && i.exportGone() == "":
		return warned("classes are not served: you can claim by them, and not list them",
			"start kcp with --feature-gates=CacheAPIs=true, then run kubectl ipam init again")
	}
	return passed("claims, allocations, pools and classes are served")
}

func (i *installation) judgeExport() finished {
	if gone := i.exportGone(); gone != "" && len(i.bindings) == 0 {
		return failed(exit.Unavailable, gone, remakeExport)
	}
	if i.exportErr != nil {
		return i.unread("the APIExport", i.exportErr)
	}
	if i.endpoints == 0 {
		return warned("the APIExport has no endpoint",
			"it gets one with the first APIBinding: kubectl ipam tenant bind WORKSPACE")
	}
	return passed("the APIExport has %s", plural.Of(i.endpoints, "endpoint", "endpoints"))
}

func (i *installation) judgeBinding() finished {
	if i.bindingErr != nil {
		return i.unread("APIBindings", i.bindingErr)
	}
	if len(i.bindings) == 0 {
		return skipped("there is none here")
	}
	inUse := &i.bindings[0]
	if err := workspaces.Bound(inUse); err != nil {
		return failed(exit.Unavailable, "APIBinding "+inUse.Name+": "+err.Error(), remedyOf(err))
	}
	if refused := notAccepted(inUse); len(refused) > 0 {
		return failed(exit.Forbidden,
			"APIBinding "+inUse.Name+" does not accept the permission for "+strings.Join(refused, ", "),
			"accept it in spec.permissionClaims of the APIBinding; "+completeBinding+" unless it was rejected")
	}
	if len(i.bindings) > 1 {
		second := i.bindings[1].Name
		return warned(fmt.Sprintf("APIBinding %s is bound; APIBinding %s is not in use, and is bound when that one goes",
			inUse.Name, second),
			"delete the one that is not meant to stay: without APIBinding "+inUse.Name+" every claim here is released")
	}
	return passed("APIBinding %s is bound, and all permissions are accepted", inUse.Name)
}

const (
	completeBinding = "kubectl ipam tenant bind WORKSPACE completes it"
	remakeExport    = "kubectl ipam init creates it again, " +
		"and tenants are served as before if the Secret of its identity is still there"
)

// remedyOf returns the remedy for an error of workspaces.Bound.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, workspaces.ErrConflict):
		return "delete the APIBinding or CustomResourceDefinition that has them; this one is bound by itself then"
	case errors.Is(err, workspaces.ErrNoExport):
		return "ask the platform's admin: " + remakeExport
	default:
		return completeBinding
	}
}

// notAccepted returns the resources for which the export claims a permission, and the binding has not accepted it.
func notAccepted(binding *apisv1alpha2.APIBinding) []string {
	var refused []string
	for _, asked := range binding.Status.ExportPermissionClaims {
		if !slices.ContainsFunc(binding.Spec.PermissionClaims, func(answered apisv1alpha2.AcceptablePermissionClaim) bool {
			return answered.EqualGRI(asked) && answered.State == apisv1alpha2.ClaimAccepted
		}) {
			refused = append(refused, asked.Resource)
		}
	}
	return refused
}

// judgeVersion compares the served schemas with those of this program. The name of a schema follows from its content.
func (i *installation) judgeVersion() finished {
	served := i.schemas()
	if len(served) == 0 {
		return skipped("you see no APIBinding and no APIExport, which name the schemas")
	}
	own := &apisv1alpha2.APIExport{}
	if err := yaml.Unmarshal(config.APIExport(), own); err != nil {
		return i.failedBy(err)
	}
	var differ []string
	for _, resource := range own.Spec.Resources {
		if schema, ok := served[resource.Name]; ok && schema != resource.Schema {
			differ = append(differ, resource.Name)
		}
	}
	if len(differ) > 0 {
		return warned("this program has another version of "+strings.Join(differ, ", "),
			"use the kubectl ipam of the platform's version, or upgrade the platform: kubectl ipam init")
	}
	return passed("the platform has the API of this program")
}

// schemas returns the name of the served schema of each resource.
func (i *installation) schemas() map[string]string {
	served := map[string]string{}
	if i.export != nil {
		for _, resource := range i.export.Spec.Resources {
			served[resource.Name] = resource.Schema
		}
	}
	for _, binding := range i.bindings {
		for _, resource := range binding.Status.BoundResources {
			served[resource.Resource] = resource.Schema.Name
		}
	}
	return served
}

func (i *installation) judgeRoles() finished {
	if i.servedErr != nil {
		return skipped("the API is not served")
	}
	if i.mayErr != nil {
		return i.failedBy(i.mayErr)
	}
	if i.place == rights.Platform {
		return i.judgeKeeper()
	}
	var lacking []string
	for _, want := range needed {
		if !i.may[want] {
			lacking = append(lacking, want.verb)
		}
	}
	if len(lacking) > 0 {
		refusal := rights.Refusal{
			Verb: lacking[len(lacking)-1], Resource: "ipclaims", Group: ipamv1alpha1.GroupName, Namespace: i.namespace,
		}
		what := fmt.Sprintf("you cannot %s ipclaims in the namespace %s", strings.Join(lacking, ", "), i.namespace)
		return failed(exit.Forbidden, what, refusal.Remedy(i.place))
	}
	return passed("you can list, create and delete claims in the namespace %s", i.namespace)
}

// judgeKeeper checks that the caller has rights on the platform, and lists them. Users of the platform need not be able
// to claim.
func (i *installation) judgeKeeper() finished {
	var allowed []string
	for _, want := range kept {
		if i.may[want] {
			allowed = append(allowed, want.verb+" "+want.resource)
		}
	}
	if len(allowed) == 0 {
		return failed(exit.Forbidden, "you have no role of the platform",
			"an admin of this workspace can run kubectl ipam grant ROLE --user NAME; kubectl ipam grant --help lists the roles")
	}
	return passed("you can %s on the platform", strings.Join(allowed, ", "))
}

func (i *installation) judgeController() finished {
	without := ""
	switch {
	case i.servedErr != nil:
		without = "the API is not served"
	case i.mayErr == nil && !i.may[access{"create", "ipclaims"}]:
		without = "you cannot create claims, and only a CREATE is answered"
	case i.exportGone() != "" && len(i.bindings) > 0:
		without = "it serves no workspace without the APIExport"
	}
	switch refusal := ipamclient.ReasonOf(i.trialErr); {
	case without != "":
		return skipped(without)
	case refusal != "" && refusal != ipamv1alpha1.ReasonError: // kcp gets ReasonError when no replica answers
		return passed("it refuses a claim of the default class: %s", refusal)
	case i.trialErr != nil:
		return i.failedBy(i.trialErr)
	}
	said := facts.AnswerOf(i.trial)
	if said.Allocated == nil {
		return failed(exit.Unavailable, "the CREATE of a claim is not answered",
			"see that ipam-controller runs and that kcp reaches --webhook-url; "+
				"with --webhook-bind-address=0 claims are answered later")
	}
	return passed("it answers a claim of the default class: %s", said.Allocated.Reason)
}
