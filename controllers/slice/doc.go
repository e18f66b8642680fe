// Package slice gives every admitted workspace a block of its own out of a pool of
// the platform that has slices: as a child pool of the pool's name there.
//
//	no pool of that name    record that a slice is given, then make the child
//	one of its own          wait until it goes, and say so
//	the slice, deleted      given up, until the workspace binds the export again
//	the workspace, gone     the record goes when the block has
//
// The child is a child pool like any other: the pool controller carves, drains and retires it.
// Which workspaces have one is decided here, and recorded in the ledger: the record outlives the
// child, and is counted against maxSlices in a transaction.
package slice
