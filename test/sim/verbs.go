package sim

import (
	"fmt"
)

// verb is an action that a story can name.
type verb struct {
	usage string // its words
	does  string
	do    func(p *player, words []string)
}

// verbs are all actions. A claim's name may begin with its namespace, as in other/ac1. Else the namespace is default.
var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"create":           {"NAME CLASS [OPTION]", "creates a claim; CLASS - is none", (*player).create},
		"delete":           {"NAME", "deletes a claim", (*player).delete},
		"delete-record":    {"NAME", "deletes the IPAllocation of a claim of that name", (*player).deleteRecord},
		"hammer":           {"NAME TIMES", "deletes a claim again and again, on 8 connections", (*player).hammer},
		"reclaim":          {"NAME Retain|Delete", "changes what becomes of the block of a claim", (*player).reclaim},
		"hold":             {"NAME", "puts a finalizer on a claim", (*player).hold},
		"let-go":           {"NAME", "takes the finalizers off a claim", (*player).letGo},
		"create-pool":      {"NAME CIDR", "creates a root pool in the tenant's workspace", (*player).createPool},
		"delete-pool":      {"NAME", "deletes a pool", (*player).deletePool},
		"delete-namespace": {"NAMESPACE", "deletes a namespace, and makes it again", (*player).deleteNamespace},
		"serve":            {"POOL CLASS", "lets a pool of the platform serve another class", (*player).serve},
		"exclude":          {"POOL CIDR", "excludes a CIDR from a pool of the platform; - is none", (*player).exclude},
		"show-path":        {"PATH", "lets the tenant's binding show the path of another workspace", (*player).showPath},
		"forge":            {"NAME VICTIM", "copies the status of another claim into the tenant's own, past admission", (*player).forge},
		"weather":          {"NAME", "changes the weather of all connections", (*player).setWeather},
		"kill":             {"[leader|standby]", "kills the controller: all replicas, or one", (*player).kill},
		"start":            {"", "starts the controller: all replicas that do not run", (*player).start},
		"pause":            {"leader|standby TIME", "lets a replica stand still", (*player).pause},
		"roll":             {"", "replaces all replicas, one after the other", (*player).roll},
		"compact":          {"", "compacts etcd", (*player).compact},
		"forget":           {"", "lets kcp forget its events, so that watches that lag list again", (*player).forget},
		"break":            {"", "ends all watches of kcp", (*player).breakWatches},
		"unbind":           {"TENANT PAUSE", "deletes a binding; PAUSE is between two of its objects", (*player).unbind},
		"bind":             {"TENANT", "binds the export again", (*player).bind},
		"copy-kcp":         {"", "copies all objects", (*player).copyKCP},
		"restore-kcp":      {"old|raised", "restores the copy; raised has a higher resourceVersion", (*player).restoreKCP},
		"copy-etcd":        {"", "copies the ledger", (*player).copyEtcd},
		"restore-etcd":     {"", "stops the controller, restores the copy of the ledger, and starts it", (*player).restoreEtcd},
	}
}

// Verbs returns a line about each action, in order.
func Verbs() (lines []string) {
	for _, name := range sorted(verbs) {
		lines = append(lines, fmt.Sprintf("%-16s %-22s %s", name, verbs[name].usage, verbs[name].does))
	}
	return lines
}
