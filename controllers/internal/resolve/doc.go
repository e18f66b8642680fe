// Package resolve decides where a claim may be served: which class governs it,
// which pools may serve it and in what order, how long the prefix is. It is
// policy alone, computed from what the Catalog shows; it neither reads nor
// writes anything else, and has no state.
//
//	claim ──▶ class? ──▶ family, length, strategy, policy
//	      ──▶ pools of its workspace, then of the platform
//	      ──▶ those that are ready, of the family, within bounds
//	      ──▶ ordered by the strategy
//
// What a workspace may not use looks exactly like what does not exist.
package resolve
