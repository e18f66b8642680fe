// Package live asks the API servers themselves, never a cache, whether the holder of a block still exists. Its answer
// decides whether an address may be given to another claim. So each reason for doubt is a verdict of its own:
//
//	Alive    the object exists, with the UID that holds the block
//	Gone     a server that serves this workspace says that the object is not there
//	Unbound  every endpoint lists its workspaces, and this one is in none of the lists
//	Unknown  no server could say; ask again
//
// The first definite answer of any endpoint counts, whatever the others say. If the slice that lists the endpoints may
// lack some, no workspace is found Unbound.
//
// When the last tenant leaves, the endpoints go, too. Then the verdict is NoEndpoint, if the slice that lists them is
// valid.
//
// The cluster that the provider has for a workspace has a GetAPIReader that reads the cache, so the readers here use
// REST clients of their own.
package live
