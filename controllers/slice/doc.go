// Package slice gives every admitted workspace a block of its own out of each platform pool that has slices. The slice
// is a child pool in the workspace, of the same name as the platform pool.
//
//	no pool of that name there        record that a slice is given, then make the child
//	a pool of the workspace's own     wait until it goes, and say so
//	the slice, deleted                given up, until the workspace binds the export again
//	the workspace, gone               drop the record once the block is returned
//
// The child is a child pool like any other: the pool controller carves, drains and retires it. This package decides
// which workspaces have a slice, and records that in the ledger. The record outlives the child, and a transaction
// counts it against maxSlices.
package slice
