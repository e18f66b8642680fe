// Package sweep finds what missed events have left behind: blocks in the ledger
// whose holder the caches do not show, root pools without an IPPool, and records that a bound claim has lost.
//
// A round looks at every block. What a large ledger costs is spread out: its round is made in parts, so
// that it takes a fiftieth of a processor, and five minutes at most. In between, a glance looks at what
// has changed. It hints at reservations, wakes claims, and remembers the orphans that it sees; what is to
// become of those is decided at the end of a round, when all of a pool are known.
//
// A block becomes a hint for package release, which asks live before it frees
// anything, only if it is old enough, was found orphaned by two rounds in a row
// without a change in between, and is one of few; a glance counts for the round that was under way.
// Where a pool has many orphans
// at once something else is wrong, such as a kcp restored from an old backup
// that knows nothing of newer claims. Then the brake holds: nothing of that pool
// is swept, which a metric, the log and an event on the pool say, until an
// operator allows it by the pool's annotation, or the orphans have become few.
//
// A reservation becomes a hint when no CREATE that was answered with it can succeed any more. The
// brake does not count it: what it was made for is looked up by name.
//
// A root pool becomes a hint when two rounds in a row did not see its IPPool, and it holds
// nothing. There is no brake for those: no address is freed.
//
// The blocks of a workspace that was seen to unbind are not braked: the live
// confirmation has to find it unbound, at every endpoint, twice. Those of one that
// has unbound unseen, while no controller ran, are: in a restored kcp every newer
// workspace looks like that.
package sweep
