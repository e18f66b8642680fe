// Package consumer looks after the consumers of claims: the objects that their
// spec.ownerRef names, which use the addresses. A claim whose consumer is gone says
// so by the condition ConsumerGone, whose reason is the rule that found it. Nothing is
// freed because of it: an ownerRef is the tenant's word. Where the operator wants it,
// the claim itself is deleted, and release follows as for any claim that is deleted.
//
//	ConsumerNotFound         no object of that name
//	ConsumerReplaced         one of that name with another UID
//	ConsumerTerminating      it is being deleted (not unless wanted)
//	ConsumerLost             its condition Lost is True, or its node is gone
//	ConsumerDisrupted        its node was told to end it
//	ConsumerAddressMismatch  it reports addresses, and none of this claim (not unless wanted)
//
// A claim is checked when it is old enough, and from then on at intervals. What two
// looks in a row have found is reported; one look that finds all well takes it back.
// Every look asks the servers and no cache, and of what may not be read there nothing
// is said, least of all that it is gone.
//
// The number of looks per second is limited. Workspaces take turns: a workspace with very
// many claims delays each other workspace by one look. An endpoint that does not answer
// occupies a few of the workers, and the others go on.
//
// An ownerRef reaches as far as an owner reference of Kubernetes: to objects of the
// claim's own namespace, and to those that have none. Any further, and a claim would
// tell its author what there is in other people's namespaces.
//
// # What can be read
//
// In a tenant's workspace, what the APIExport offers: IPPools, IPClaims and
// IPAllocations. Any other kind needs a permissionClaim in the export, with the verbs
// get and list, which the tenant's binding accepts for all objects. kcp shows the
// export only objects that it has labelled for that claim, so that an object whose
// label is missing looks gone. No claim is deleted over an object of such a kind,
// unless another one of it is shown in the same workspace. In the platform workspace,
// what the roles of the controller's service account let it get.
package consumer
