package claim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/allocator"
	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/controllers/internal/directory"
	"github.com/kcp-ipam/ipam/controllers/internal/inbox"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
	"github.com/kcp-ipam/ipam/controllers/internal/patch"
	"github.com/kcp-ipam/ipam/test/gen"
	"github.com/kcp-ipam/ipam/test/must"
)

// The error of a pass decides when the claim is requeued, also if two errors are joined.
func TestRequeueFor_DelaysByTheError(t *testing.T) {
	t.Parallel()
	claims := ipamv1alpha1.GroupVersion.WithResource("ipclaims").GroupResource()
	fault := errors.New("etcd is away")
	leaves := apierrors.NewForbidden(claims, "c", fault)
	leaves.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, tt := range []struct {
		name  string
		err   error
		after time.Duration
		want  error
	}{
		{name: "done"},
		{name: "the server does not know the claim", err: apierrors.NewNotFound(claims, "c"), after: goneDelay},
		{name: "the claim is gone", err: errGone, after: missedDelay},
		{name: "its namespace goes", err: fmt.Errorf("create: %w", leaves)},
		{name: "the pool was not compared yet", err: errUnchecked, after: goneDelay},
		{name: "the cache lags behind", err: errUnseen, after: patch.ConflictDelay},
		{name: "a conflict beside another error", err: errors.Join(fault, apierrors.NewConflict(claims, "c", fault)), after: patch.ConflictDelay},
		{name: "a fault", err: fault, want: fault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := requeueFor(tt.err)
			if got.RequeueAfter != tt.after || !errors.Is(err, tt.want) {
				t.Errorf("requeueFor(%v) = %s, %v; want %s, %v", tt.err, got.RequeueAfter, err, tt.after, tt.want)
			}
		})
	}
}

// While the ledger is away, conditions and event of a claim say so, in words that tell a tenant nothing of how the
// ledger is built or where it runs.
func TestReconcile_TellsNothingOfTheServers(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered(), gen.Claim("c", gen.OfClass("internal")))
	must.Do(t, s.ledger.Close())
	_, err := s.Reconcile(t.Context(), requestIn("tenant", "c"))
	if !errors.Is(err, ledger.ErrClosed) {
		t.Fatalf("Reconcile = %v, want it to say %v", err, ledger.ErrClosed)
	}
	claim := gen.Claim("c")
	must.Do(t, s.tenant.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim))
	const want = "the ledger is not available now"
	if len(claim.Status.Conditions) == 0 {
		t.Error("the claim has no conditions, want the reason Error")
	}
	for _, c := range claim.Status.Conditions {
		if c.Reason != string(ipamv1alpha1.ReasonError) || c.Message != want {
			t.Errorf("%s says %s: %q, want %s: %q", c.Type, c.Reason, c.Message, ipamv1alpha1.ReasonError, want)
		}
	}
	if got := <-s.tenant.Events.Events; !strings.HasSuffix(got, want) {
		t.Errorf("the event says %q, want %q", got, want)
	}
}

// A refused claim shows the class and the block that it asks for. If an older controller refused it for the same reason
// without showing the class, the class stays empty: the claim is not written for that alone.
func TestRefused_ShowsWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	because := &outcome.Refusal{Reason: ipamv1alpha1.ReasonClassNotFound, Message: "there is none"}
	for name, row := range map[string]struct {
		option           gen.ClaimOption
		class, requested string
	}{
		"a length":   {gen.Length(26), "internal", "/26"},
		"an address": {gen.Address("192.0.2.7"), "internal", "192.0.2.7"},
	} {
		claim := gen.Claim("c", gen.OfClass("internal"), row.option)
		refused(claim, because)
		if got := claim.Status; got.ClassName != row.class || got.Requested != row.requested {
			t.Errorf("%s: the claim shows class %q and %q, want %q and %q", name, got.ClassName, got.Requested, row.class, row.requested)
		}
	}
	old := gen.Claim("c", gen.OfClass("internal"))
	outcome.Refuse(&old.Status.Conditions, old.Generation, because)
	refused(old, because)
	if got := old.Status.ClassName; got != "" {
		t.Errorf("a claim that was refused before shows class %q, want it as it was", got)
	}
}

// Doubts queues a claim that is added, and has it until it is dropped. A pool is not queued. A nil Doubts has no
// claims.
func TestDoubts_QueueClaimsAndNoPools(t *testing.T) {
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
	doubted := d.has("uid-of-c")
	d.drop("uid-of-c")
	if !doubted || d.has("uid-of-c") {
		t.Errorf("the claim is doubted = %t, and once that was dropped = %t; want true and false", doubted, d.has("uid-of-c"))
	}
	(*Doubts)(nil).drop("uid-of-c")
	if (*Doubts)(nil).has("uid-of-c") {
		t.Error("no doubts doubt a claim")
	}
}

// CREATEs and dry runs get no answer from a replica that has heard from no server for a while: the classes, pools and
// consumers that it knows may have been withdrawn since.
func TestAnswer_FailsWhileTheCachesMayBeStale(t *testing.T) {
	t.Parallel()
	s := newScene(t, allocator.Options{}, offered())
	blind := errors.New("no server has answered")
	s.Sees = func() error { return blind }
	for _, dry := range []bool{false, true} {
		answer, err := s.Answer(t.Context(), door.Request{Cluster: "tenant", Claim: gen.Claim("c", gen.OfClass("internal")), DryRun: dry})
		if !errors.Is(err, blind) {
			t.Errorf("answered %+v, %v, dry: %t; want no answer", answer, err, dry)
		}
	}
	s.wantBlocks()
}
