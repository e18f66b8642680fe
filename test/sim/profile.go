package sim

import "time"

// Profile says what kind of stories [Draw] makes, and how they are judged.
type Profile struct {
	// Steps is the number of steps of each client; a tenant has two clients.
	Steps int
	// Pause is the longest pause between two steps of a client.
	Pause time.Duration
	// Scenes replaces the weights of the scenes that it names. Zero: the scene is not played.
	Scenes map[string]int
	// Only leaves out all scenes that Scenes does not name.
	Only bool
	// Faults are the weights of faults. Empty: there are none.
	Faults map[string]int
	// Between is the longest pause between two faults.
	Between time.Duration
	// Replicas is the number of controllers. If there are several, they elect a leader. Zero: one.
	Replicas int
	// Fair says that there are no faults, so that each CREATE is owed an answer.
	Fair bool
}

var profiles = map[string]Profile{
	// calm has tenants alone, with everything that the API allows.
	"calm": {Steps: 20, Pause: 3 * time.Second, Fair: true},
	// chaos has bad connections, and kills.
	"chaos": {
		Steps: 20, Pause: 5 * time.Second, Between: 5 * time.Second,
		Faults: map[string]int{"weather": 6, "etcd": 4, "kill": 2, "compact": 1, "forget": 1, "break": 1},
	},
	// unbind has bindings and namespaces that go while their objects are used.
	"unbind": {
		Steps: 25, Pause: 5 * time.Second, Between: 8 * time.Second,
		Scenes: map[string]int{"namespace": 2}, Faults: map[string]int{"unbind": 3, "rebind": 3, "weather": 1},
	},
	// restore has a kcp that is restored from an older copy.
	"restore": {
		Steps: 25, Pause: 5 * time.Second, Between: 20 * time.Second,
		Scenes: map[string]int{"burst": 6, "range": 8, "delete range": 8}, Faults: map[string]int{"restore kcp": 1, "restore below a range": 1},
	},
	// hostile has a tenant who does what the API does not forbid, and what kcp lets pass for a moment.
	"hostile": {
		Steps: 15, Pause: 3 * time.Second, Fair: true,
		Scenes: map[string]int{"storm": 5, "hammer": 3, "show path": 3, "network": 15, "range": 6},
	},
	// forged has statuses that were stored past admission, and ledgers that have to be read again.
	"forged": {
		Steps: 15, Pause: 3 * time.Second, Between: 20 * time.Second,
		Scenes: map[string]int{"forge": 6}, Faults: map[string]int{"kill": 2, "restore etcd": 1},
	},
	// waiting has pools that are full.
	"waiting": {
		Steps: 40, Pause: time.Second, Fair: true, Only: true,
		Scenes: map[string]int{"wait": 20, "exact": 8, "delete": 14, "few": 6, "create, delete": 4, "exclude": 2, "again": 3, "beside": 6, "limit": 4},
	},
	// networks has ranges that come and go with claims inside.
	"networks": {
		Steps: 30, Pause: time.Second, Fair: true, Only: true,
		Scenes: map[string]int{"network": 20, "range": 10, "delete range": 12, "delete": 15, "race": 6, "stay": 4, "finalizer": 2, "retained": 2, "two holders": 3},
	},
	// recovery has a ledger that is restored from an older copy, and a controller that is killed.
	"recovery": {
		Steps: 20, Pause: 5 * time.Second, Between: 15 * time.Second,
		Scenes: map[string]int{"network": 12, "range": 8}, Faults: map[string]int{"restore etcd": 2, "kill": 3},
	},
	// replicas has two controllers, and leaders that are killed, that stand still, and that are replaced.
	"replicas": {
		Steps: 25, Pause: 5 * time.Second, Between: 6 * time.Second, Replicas: 2,
		Scenes: map[string]int{"network": 12, "range": 8, "delete range": 8},
		Faults: map[string]int{"weather": 2, "kill leader": 2, "kill standby": 1, "pause": 6, "roll": 1, "compact": 1},
	},
}

// Profiles returns the names of all profiles, in order.
func Profiles() []string { return sorted(profiles) }
