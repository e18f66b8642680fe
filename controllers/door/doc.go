// Package door answers the CREATE of claims. The API server calls it by webhook for each claim that is being created,
// and stores the claim with the status that the door returns. The API server also asks the door about some DELETEs.
//
// These are the paths of the webhooks. All are mutating except /refuse, which is validating:
//
//	/TOKEN/answer        CREATE of a claim: sets the final status of the claim
//	/TOKEN/keep          UPDATE of a claim: restores a status that somebody else has changed
//	/TOKEN/drain         DELETE of a pool in use: waits for releases that are under way
//	/TOKEN/release       DELETE of an IPAllocation that names a claim: waits for the release of the claim
//	/TOKEN/close         DELETE of a claim that holds a range: closes the range, unless something is inside
//	/TOKEN/retire        DELETE of a pool that a class has made: closes the pool, unless it is in use
//	/TOKEN/retire-class  DELETE of a class that makes pools: refuses while the pools are in use
//	/refuse              CREATE of a claim with unmetPolicy Refuse that nobody has answered: refuses it
//
// If the door is away, requests pass without it, except those for /refuse, which fail. A claim that passes is stored
// without an answer, and the reconcile binds it.
//
// The token keeps everybody but the API server from asking, because an answer takes a block. If a webhook that may not
// be skipped cannot be called, the API server shows its URL to the user. So /refuse has no token, and its answer says
// nothing that the request does not.
package door
