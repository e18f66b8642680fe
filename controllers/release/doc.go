// Package release gives blocks back when the claims that held them are gone.
//
// Claims carry no finalizer: one could wedge a tenant's workspace, and costs a write. So a deletion is learnt in many
// ways (an event, a workspace that left, a sweep), all of them hints. A hint names the holder of a block. Hints have a
// queue of their own, which needs no engaged cluster and outlives the workspace's engagement:
//
//	hint ──▶ facts: verdict of the servers × block × record × may it be shown ──▶ table ──▶ action
//
//	alive ──▶ nothing
//	gone ───▶ retain the record and the block, or delete the record, then free the block
//	left ───▶ free the block (the claim and its record went with a binding of the workspace)
//	unknown ▶ ask again later
//
// If the caches show a workspace as bound nowhere, no server is asked about its claims at first: two lists of all bound
// workspaces, the censuses, say whether the workspace has left. All hints share the censuses. The holder of a root pool
// is its IPPool, as the holder of a block is its claim. Without its IPPool, the pool drains.
//
// A claim shows its block from its CREATE on, before any cache has the claim. So while a CREATE may still succeed, the
// absence of its claim does not free its block. Nor is a block freed while a later claim of the holder's name shows the
// block: the reconcile of that claim takes it over.
//
// Nothing is freed on a hint alone. If nobody saw the deletion of a claim, its release needs a witness, too: the
// claim's record, or an event that showed the binding of its workspace go. A kcp that was restored from a backup has
// neither for a claim that is newer than the backup. A block without a witness is left to the sweep, which has a brake.
// A request about a range, such as its DELETE, settles the claims inside the range: each needs a deletion that was
// seen, or such a witness ([Controller.SettleWitnessed]).
package release
