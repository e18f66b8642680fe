package door

import (
	"context"
	"errors"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Answerer decides claims that are being created. It is safe for concurrent use.
type Answerer interface {
	// Answer returns what the CREATE of a claim is answered. An error means that there is
	// no answer now; its text is for logs only. The answer beside it may say Refuse, and nothing else: the claim is not
	// to be stored without one. It returns soon after ctx ends.
	Answer(ctx context.Context, req Request) (Answer, error)
}

// ErrEarly is in the error of an Answerer when an earlier claim or CREATE of the same name is not settled yet. It is
// no fault, and the log says so.
var ErrEarly = errors.New("the CREATE comes too early")

// Request is one claim that is being created. A replica sends it to the leader as JSON: add fields, and change none.
type Request struct {
	// Cluster is the logical cluster of the claim.
	Cluster ledger.ClusterName `json:"cluster"`
	// Claim has its name and namespace. It has no UID yet, and its status is empty. The
	// schema has not checked it yet.
	Claim *ipamv1alpha1.IPClaim `json:"claim"`
	// DryRun says that nothing may be taken.
	DryRun bool `json:"dryRun,omitempty"`
}

// Answer is a final status. The leader sends it as JSON.
type Answer struct {
	Status ipamv1alpha1.IPClaimStatus `json:"status"`
	// Refuse says that the claim or its class has unmetPolicy Refuse, and that the status
	// is not Bound. The CREATE then fails with the reason of the condition Allocated.
	Refuse bool `json:"refuse,omitempty"`
	// Pool is the only pool that was asked and has no room. Empty: there were several, or the system makes it.
	Pool string `json:"pool,omitempty"`
	// Roles are those that the scope of the claim lacks.
	Roles []string `json:"roles,omitempty"`
}
