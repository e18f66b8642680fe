package door

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Closer lets claims be deleted that hold a range. It is safe for concurrent use.
type Closer interface {
	// CloseRange closes the range that a claim holds, and deletes its IPPool, if nothing is inside by now. Else it says for people what keeps
	// the range, which stays as it is. A dry run changes nothing. It fails if all that is inside may be gone.
	CloseRange(ctx context.Context, in ledger.ClusterName, claim *ipamv1alpha1.IPClaim, dry bool) (inside string, err error)
}

// undecided is the message of a DELETE that is refused because nobody can tell.
const undecided = "nobody can tell now whether something is inside the range: delete the claim again later"

// closeRange decides about the DELETE of a claim that holds a range. The API server may call it more than once for one DELETE. If it
// cannot be called at all, the claim is deleted, and the range goes when it is empty.
func (s *server) closeRange(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	claim := &ipamv1alpha1.IPClaim{}
	if err := json.Unmarshal(req.OldObject.Raw, claim); err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	in, inside := s.in(claim), ""
	if s.closer == nil || in == "" {
		return &admissionv1.AdmissionResponse{Allowed: true}, nil
	}
	err := SleepInTurn(ctx, in, func(ctx context.Context) (err error) {
		inside, err = s.closer.CloseRange(ctx, in, claim, dry(req))
		return err
	})
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "a DELETE is not decided", "cluster", in, "claim", claim.Namespace+"/"+claim.Name)
		return fails("ipclaims", claim.Name, http.StatusServiceUnavailable, undecided), nil
	case inside != "":
		return fails("ipclaims", claim.Name, http.StatusConflict, inside), nil
	}
	return &admissionv1.AdmissionResponse{Allowed: true}, nil
}
