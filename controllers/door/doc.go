// Package door answers the CREATE of claims. The API server calls it by webhook for each
// claim that is being created, and stores the claim with the status that the door returns.
//
// There are four paths:
//
//	/TOKEN/answer   mutating, on CREATE: sets the final status of the claim
//	/TOKEN/keep     mutating, on UPDATE: restores a status that somebody else has changed
//	/TOKEN/drain    mutating, on DELETE of a pool in use: waits for releases that are under way
//	/refuse         validating, on CREATE: fails a claim with unmetPolicy Refuse that
//	                nobody has answered
//
// All but the last let the request pass when the door is away: the claim is then stored
// without an answer, and the reconcile binds it. The last one fails it.
//
// The token keeps everybody but the API server from asking: an answer takes a block. The API
// server shows users the URL of a webhook that must not fail, so /refuse has no token, and
// its answer says nothing that the request does not.
package door
