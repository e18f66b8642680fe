package claim

import (
	"testing"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
)

func TestDoubts_QueueAClaimOnce(t *testing.T) {
	t.Parallel()
	known := directory.New(directory.Workspace{Cluster: "p", Path: "root:ipam"})
	d := NewDoubts(inbox.New(known).Claims, known)
	t.Cleanup(d.queue.ShutDown)
	d.Add(ledger.Holder{Claim: "uid-of-pool", Cluster: "w", Name: "pool"})
	d.Add(ledger.Holder{Claim: "uid-of-c", Cluster: "w", Namespace: "default", Name: "c"})
	if got := d.queue.Len(); got != 1 {
		t.Fatalf("%d requests are queued, want that of the claim alone", got)
	}
	if got, _ := d.queue.Get(); got != requestIn("w", "c") {
		t.Errorf("queued is %v, want claim c of workspace w", got)
	}
	for i, want := range []bool{true, false} {
		if got := d.take("uid-of-c"); got != want {
			t.Errorf("take %d = %t, want %t", i, got, want)
		}
	}
	if (*Doubts)(nil).take("uid-of-c") {
		t.Error("no doubts doubt a claim")
	}
}
