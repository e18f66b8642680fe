package ledger

import "time"

// SliceState is what a workspace has of a pool's slices.
type SliceState string

const (
	// SliceWaiting: the workspace waits for one.
	SliceWaiting SliceState = "waiting"
	// SliceGiven: the workspace has one, or is about to. It counts until it is
	// declined or dropped.
	SliceGiven SliceState = "given"
	// SliceDeclined: the workspace has given its slice up, for as long as its binding
	// lasts.
	SliceDeclined SliceState = "declined"
)

// Slice is the record of what a workspace has of a pool that gives every workspace
// one block. It is no block: that is carved like any child pool's.
type Slice struct {
	Pool    PoolID
	Cluster ClusterName
	// Binding is what entitles the workspace: another binding is entitled anew.
	Binding string
	// Child is the pool that was made for it. Empty until that is known.
	Child PoolID
	State SliceState
	// Since is the workspace's place among those that wait.
	Since time.Time
}
