package verify

import (
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// skew is the most by which the clocks of replicas may differ: a tenure begins by the clock of the replica
// that bound the block, and ends by the clock of the one that released it.
const skew = time.Minute

// addTenure compares a tenure of the history with the clock, and with the one before it of the
// same block. They come bucket by bucket, and those of a block in the order of time.
func (b *books) addTenure(t ledger.Tenure) {
	if t.Bucket() != b.bucket {
		clear(b.past)
		b.bucket = t.Bucket()
	}
	at := position{t.Space, t.Prefix}
	last, again := b.past[at]
	b.past[at] = t
	if t.Until.After(b.now.Add(skew)) {
		b.find(aboutTenure(t, "its end, %s, is in the future", when(t.Until)))
	}
	if again && last.Overlaps(t, skew) {
		b.find(aboutTenure(t, "it begins at %s, and that of claim %s, %s/%s, ends at %s", when(t.From),
			last.Holder.Claim, last.Holder.Namespace, last.Holder.Name, when(last.Until)))
	}
}

// aboutTenure begins a finding on a record of the history.
func aboutTenure(t ledger.Tenure, format string, args ...any) Finding {
	return about(HistoryMismatch, ledger.Block{Prefix: t.Prefix, Holder: t.Holder, Revision: t.Revision}, format, args...)
}
