package ledger

import "time"

// SliceState is the state of a workspace's slice of a pool.
type SliceState string

const (
	// SliceWaiting: the workspace waits for a slice.
	SliceWaiting SliceState = "waiting"
	// SliceGiven: the workspace has a slice, or is about to have it. The slice counts until it is declined or dropped.
	SliceGiven SliceState = "given"
	// SliceDeclined: the workspace has given up its slice, until it has another binding.
	SliceDeclined SliceState = "declined"
)

// Slice is the record of one workspace for a pool that gives every workspace one block. It is not the block itself,
// which is carved as for any child pool.
type Slice struct {
	Pool    PoolID
	Cluster ClusterName
	// Binding is the UID of the APIBinding by which the workspace has a right to a slice. A workspace
	// that declined its slice gets one again by another binding.
	Binding string
	// Child is the child pool. Empty: it is not known yet.
	Child PoolID
	State SliceState
	// Since is the workspace's place among those that wait.
	Since time.Time
}
