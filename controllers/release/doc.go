// Package release gives blocks back when the claims that held them are gone.
//
// Claims carry no finalizer: one could wedge a tenant's workspace, and costs a
// write. So a deletion is learnt in many ways (an event, a workspace that left,
// a sweep), all of them hints. A hint names the holder of a block and is put on
// a queue of its own, which needs no engaged cluster and outlives the
// workspace's engagement:
//
//	hint ──▶ ask live ──▶ alive: nothing
//	                  ──▶ gone: delete or retain the record, then the block
//	                  ──▶ unbound: ask the censuses, and free the block (the record went with the binding)
//	                  ──▶ unknown: ask again later
//
// A workspace that the caches show bound nowhere is asked for first, by two censuses that all
// hints share. A root pool is held by its IPPool as a block is by its claim, and drains.
//
// A claim shows its block from its CREATE on, before anybody has confirmed that. What a claim was
// promised is settled as what it holds; and a reservation is looked up by its claim's name, when
// no CREATE that was answered with it can still succeed.
//
// Nothing is freed on a hint alone. A claim whose deletion was not seen needs a witness, too: its
// record, or that the binding of its workspace was seen to go. A kcp restored from a backup has
// neither for a newer claim. What has no witness is left to the sweep and its brake.
package release
