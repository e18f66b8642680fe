// Package sweep repairs what missed events have left behind. It finds blocks in the ledger whose
// holder the caches do not show, root pools without an IPPool, and bound claims that have lost their
// IPAllocation.
//
// A round looks at every block. In a large ledger it is made in parts, so that it takes a hundredth of
// a processor, or lasts ten minutes at most. Between the parts, a glance looks at the blocks that have
// changed. It wakes claims, and notes the orphans that it sees. The sweep decides
// about orphans at the end of a round, when it knows all orphans of a pool.
//
// An orphan becomes a hint for package release, which asks live before it frees a block. The block must
// be old enough, and two rounds in a row must have found it orphaned, without a change in between. A
// glance counts as the round during which it looked.
//
// If a pool has many orphans at once, something else is wrong: a kcp that was restored from an old
// backup lacks newer claims, for example. Then the brake holds, and no orphan of that pool becomes a
// hint. A metric, the log and an event on the pool say so. The brake ends when an operator allows the
// sweep by an annotation of the pool, or when only a few orphans are left.
//
// A block that was bound for a CREATE is looked at when that CREATE cannot succeed any more: before, the brake does not
// count it. The leader hints at the blocks of its own answers; the sweep finds those of a former leader.
//
// A root pool becomes a hint when it is empty, and two rounds in a row did not see its IPPool. There is
// no brake for pools: no address is freed.
//
// There is no brake for the blocks of a workspace whose binding was seen to go: the live confirmation
// has to find the workspace unbound at every endpoint, twice. For a workspace that has unbound while no
// controller ran, there is one: in a restored kcp every newer workspace looks like that.
package sweep
