package claim

import (
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/kcp-ipam/ipam/test/gen"
)

// A class changes, and the 100,000 claims that wait for it are requeued.
func BenchmarkWaiting_On(b *testing.B) {
	w := &waiting{}
	class := topic{kind: classTopic, name: "c"}
	made := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 100_000 {
		// A hundred are of one second, as those of one manifest: their names decide.
		claim := gen.Claim(fmt.Sprintf("claim-%06d", i*7919%100_000), gen.Created(made.Add(time.Duration(i/100)*time.Second)))
		cluster := multicluster.ClusterName(fmt.Sprintf("workspace-%d", i%300))
		w.enter(requestIn(cluster, claim.Name), claim, []topic{class})
	}
	for b.Loop() {
		if woken := w.on(class); len(woken) != 100_000 {
			b.Fatalf("on = %d claims, want 100,000", len(woken))
		}
	}
}
