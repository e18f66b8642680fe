package door

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/storage/names"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// answer sets the status of a claim that is being created. A status that the client has sent never stays.
func (s *server) answer(
	ctx context.Context, req *admissionv1.AdmissionRequest,
) (*admissionv1.AdmissionResponse, error) {
	begun := time.Now()
	draft, err := readDraft(req.Object.Raw)
	if err != nil {
		return nil, err
	}
	draft.disownStatus()
	// The API server names a claim only after this call. A claim that has a name keeps it.
	if prefix := draft.GetGenerateName(); draft.GetName() == "" && prefix != "" {
		draft.rename(names.SimpleNameGenerator.GenerateName(prefix))
	}
	claim, ok := draft.decidable(req)
	if !ok {
		draft.setStatus(nil)
		return draft.allowed()
	}
	request := Request{Cluster: s.in(claim), Claim: claim, DryRun: dry(req)}
	answer, err := s.ask(ctx, request)
	observe(answer, err, time.Since(begun))
	logger := log.FromContext(ctx).WithValues("cluster", request.Cluster, "claim", claim.Namespace+"/"+claim.Name)
	switch {
	case err != nil:
		note(logger, err)
		if answer.Refuse || claim.Spec.UnmetPolicy == ipamv1alpha1.UnmetRefuse {
			return unanswered(claim.Name), nil
		}
		draft.setStatus(nil)
		return draft.allowed()
	case answer.Refuse:
		logger.V(1).Info("CREATE is refused")
		return refusedBy(claim.Name, answer), nil
	}
	logger.V(1).Info("CREATE is answered", "phase", answer.Status.Phase, "prefix", answer.Status.AllocatedCIDR)
	draft.setStatus(answer.Status)
	resp, err := draft.allowed()
	if err == nil && answer.Warning != "" {
		resp.Warnings = []string{answer.Warning}
	}
	return resp, err
}

// note logs why a CREATE has no answer. It logs no error if the CREATE comes too early, which is not a fault, or if the
// leader gives no answer: a fault of the leader is in the leader's log.
func note(logger logr.Logger, err error) {
	const what = "CREATE is not answered"
	if errors.Is(err, ErrEarly) || errors.Is(err, errLeader) {
		logger.Info(what, "why", err.Error())
		return
	}
	logger.Error(err, what)
}

// decidable returns the claim of a draft. ok is false if the API server will refuse the claim, or if the spec is too
// long: then nobody has to be asked. A claim has no managed fields if the client has sent a status of another type, or
// managed fields of a version that is not served. The policy ipam-claim-status-create refuses both.
func (d *draft) decidable(req *admissionv1.AdmissionRequest) (claim *ipamv1alpha1.IPClaim, ok bool) {
	if tooLong(req.Object.Raw) {
		return nil, false
	}
	claim, err := d.claim()
	if err != nil || len(claim.ManagedFields) == 0 {
		return nil, false
	}
	claim.Namespace, claim.UID, claim.ManagedFields = req.Namespace, "", nil
	return claim, d.storable(claim)
}

// ask asks for the answer to a CREATE. A panic becomes an error, so that the other CREATEs go on.
func (s *server) ask(ctx context.Context, req Request) (answer Answer, err error) {
	if req.Cluster == "" {
		return Answer{}, errors.New("the claim does not name its logical cluster")
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			answer, err = Answer{}, fmt.Errorf("panic: %v\n%s", panicked, debug.Stack())
		}
	}()
	return s.decider().Answer(ctx, req)
}

// Decider decides CREATEs and DELETEs. The leader has one that decides by itself. The Decider of another replica is a
// peer, which asks the leader. It is safe for concurrent use.
type Decider interface {
	Answerer
	Drainer
	Releaser
	Closer
	Retirer
}

// Answerer decides claims that are being created. It is safe for concurrent use.
type Answerer interface {
	// Answer returns the answer to the CREATE of a claim. An error means that there is no answer now; its text is for
	// logs only. With an error, the returned Answer may have Refuse set, and nothing else: then the CREATE fails,
	// because the claim must not be stored without an answer. Answer returns soon after ctx ends.
	Answer(ctx context.Context, req Request) (Answer, error)
}

// ErrEarly: an earlier claim or CREATE of the same name is not settled yet. An Answerer returns it, wrapped. It is not
// a fault, and is not logged as an error.
var ErrEarly = errors.New("the CREATE comes too early")

// Request is one claim that is being created. A replica sends it to the leader as JSON: add fields, and change none.
type Request struct {
	// Cluster is the logical cluster of the claim.
	Cluster ledger.ClusterName `json:"cluster"`
	// Claim has its name and namespace. It has no UID yet, and its status is empty. The
	// schema has not checked it yet.
	Claim *ipamv1alpha1.IPClaim `json:"claim"`
	// DryRun says that no block may be taken.
	DryRun bool `json:"dryRun,omitempty"`
}

// Answer is the final status of a claim, or a refusal. The leader sends it as JSON.
type Answer struct {
	Status ipamv1alpha1.IPClaimStatus `json:"status"`
	// Refuse says that the claim or its class has unmetPolicy Refuse, and that the status
	// is not Bound. The CREATE then fails with the reason of the condition Allocated.
	Refuse bool `json:"refuse,omitempty"`
	// Pool is the name of the only pool that was asked, if it has no room. Empty: several pools were asked, or it is one
	// that the system makes.
	Pool string `json:"pool,omitempty"`
	// Roles are the roles that the scope of the claim lacks.
	Roles []string `json:"roles,omitempty"`
	// Warning is shown to the user beside the answer, if the claim may not mean what it says.
	Warning string `json:"warning,omitempty"`
}
