// Package ipamclient claims blocks of addresses and gives them back, for programs in Go.
//
// [Claim] creates an IPClaim, waits for its block and returns it. [Ensure] does the same
// without waiting, for a reconciler that is called again. [Release] gives the block back.
// All of them may be repeated after any failure: a claim is known by its namespace and name,
// so the same request again gets the same block.
//
// A claim without a block is an [UnmetError], and [ReasonOf] is its reason, whether the server
// refused the CREATE or stored a claim that waits. A name that is taken by a claim for something
// else is a [ConflictError].
//
// Every function takes a client that reads live, from [sigs.k8s.io/controller-runtime/pkg/client.NewWithWatch]. The
// cached client of a manager does not: its stale read could return a block that was released since. No function keeps
// state, and all may be called at the same time.
package ipamclient
