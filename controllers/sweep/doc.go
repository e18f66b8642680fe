// Package sweep repairs what missed events have left behind. It finds orphans, root pools without an IPPool, and bound
// claims that have lost their IPAllocation. An orphan is a block in the ledger whose holder the caches do not show.
//
// A round looks at every block. In a large ledger a round is made in parts, so that it uses at most a hundredth of a
// processor. It uses more if it would otherwise last longer than ten minutes. Between the parts, a glance looks at the
// blocks that have changed. A glance wakes claims that have lost their IPAllocation, and notes the orphans that it
// sees. The sweep decides about orphans at the end of a round, when it knows all orphans of a pool.
//
// An orphan becomes a hint for package release, which asks the servers before it frees a block. The block must be old
// enough, and two rounds in a row must have found it orphaned, without a change of the block in between. A glance
// counts as the round during which it looked.
//
// If a pool has many orphans at once, something else is wrong. For example, a kcp that was restored from an old backup
// lacks newer claims. Then the brake holds, and no orphan of that pool becomes a hint. A metric, the log and an event
// on the pool say so. The brake ends when an operator allows the sweep by an annotation of the pool, or when only a few
// orphans are left.
//
// A block that was bound for a CREATE is not looked at while that CREATE may still succeed, and the brake does not
// count it as an orphan. The leader hints at the blocks of its own answers. The sweep finds the blocks of a former
// leader's answers.
//
// A root pool becomes a hint when it is empty, and two rounds in a row did not see its IPPool. There is no brake for
// pools, because no address is freed.
//
// The brake does not hold for the blocks of a workspace whose binding was seen to go: package release frees them only
// if the workspace is found unbound at every endpoint, twice. The brake does hold for a workspace that left while no
// controller ran: in a restored kcp, every newer workspace looks like that.
package sweep
