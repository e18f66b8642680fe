// Package live asks the API servers themselves, never a cache, whether the
// holder of a block still exists. What it answers decides whether an address
// may be given to another claim, so every doubt is an answer of its own:
//
//	Alive    the object exists, with the UID that holds the block
//	Gone     a server that serves this workspace says that the object is not there
//	Unbound  every endpoint lists its workspaces, and this one is in none of the lists
//	Unknown  no server could say; ask again
//
// The first definite answer of any endpoint counts, whatever the others say. That an
// object's workspace is nowhere is no answer of the endpoints if the slice that lists them
// may lack some.
//
// With the last tenant the endpoints go, too. Then the answer is NoEndpoint, if the
// slice that lists them is in order.
//
// The cluster that the provider offers for a workspace has a GetAPIReader that
// reads the cache, so the readers here are built on REST clients of their own.
package live
