// Package release gives blocks back when the claims that held them are gone.
//
// Claims carry no finalizer: one could wedge a tenant's workspace, and costs a
// write. So a deletion is learnt in many ways (an event, a workspace that left,
// a sweep), all of them hints. A hint names the holder of a block and is put on
// a queue of its own, which needs no engaged cluster and outlives the
// workspace's engagement:
//
//	hint ──▶ facts: verdict of the servers × block × record × who may show it ──▶ table ──▶ action
//
//	alive ──▶ nothing
//	gone ───▶ retain the record and the block, or delete the record, then free the block
//	left ───▶ after two censuses: free the block (the record went with the binding)
//	unknown ▶ ask again later
//
// A workspace that the caches show bound nowhere is asked for first, by two censuses that all
// hints share. A root pool is held by its IPPool as a block is by its claim, and drains.
//
// A claim shows its block from its CREATE on, before anybody has seen the claim. So a block that was bound for a CREATE
// is not freed for absence while that CREATE may still succeed; and no block is freed while the present claim of its
// holder's name shows it, by whatever ID: its reconcile takes the block over.
//
// Nothing is freed on a hint alone. A claim whose deletion was not seen needs a witness, too: its
// record, or that the binding of its workspace was seen to go. A kcp restored from a backup has
// neither for a newer claim. What has no witness is left to the sweep and its brake. A request about a range asks to
// settle what lies inside: that needs a deletion that was seen, or such a witness ([Controller.SettleWitnessed]).
package release
