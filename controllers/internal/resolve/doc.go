// Package resolve decides where a claim may be served: which class governs it, which pools may serve it and in what
// order, and how long the prefix is. It is pure policy, computed from the Catalog. It reads nothing else, writes
// nothing, and has no state.
//
//	claim ──▶ class? ──▶ family, length, strategy, policy
//	      ──▶ pools of its workspace, then of the platform
//	      ──▶ those that are ready, of the family, within bounds
//	      ──▶ ordered by the strategy
//
// To a workspace, a class or pool that it may not use looks exactly like one that does not exist.
package resolve
