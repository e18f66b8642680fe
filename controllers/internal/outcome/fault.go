package outcome

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// Fault is an error with a message for users. The text of any other error is for the log alone, because it may have
// addresses of servers, keys of etcd, and names of other workspaces.
type Fault struct {
	// Message is the text for users: a whole sentence without its full stop.
	Message string
	// Err is the error for the log. Nil: there is none.
	Err error
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return f.Message
	}
	return f.Message + ": " + f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// Failed returns the refusal that users see while a fault is retried, and the error for the log. If the fault has no
// message for users, both have the same number. The same fault has the same number each time, so that a retry does not
// write the object again.
func Failed(err error) (*Refusal, error) {
	said := words(err)
	if said == "" {
		id := number(err)
		said = "an internal fault (id " + id + "), which the log of the controller explains"
		err = fmt.Errorf("internal fault %s: %w", id, err)
	}
	return &Refusal{Reason: ipamv1alpha1.ReasonError, Message: said}, err
}

// words returns the message for a known error; empty for any other.
func words(err error) (said string) {
	fault, told := errors.AsType[*Fault](err)
	network, unreachable := errors.AsType[net.Error](err)
	switch {
	case told:
		said = fault.Message
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, ledger.ErrBusy), errors.Is(err, ledger.ErrClosed):
		said = "the ledger is not available now"
	case errors.Is(err, ledger.ErrCools):
		said = ledger.ErrCools.Error() + ", and differs from what the claim asks for"
	case ledger.Unreadable(err):
		said = "the ledger has a value that this version cannot read"
	case apierrors.IsForbidden(err):
		said = "the workspace forbids what the controller has to write: a ResourceQuota, or a policy of admission"
	case errors.Is(err, context.DeadlineExceeded), unreachable && network.Timeout(), apierrors.IsTimeout(err),
		apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err):
		said = "a server did not answer in time"
	}
	return said
}

// digits matches the numbers in an error that differ from one attempt to the next: ports, times, revisions.
var digits = regexp.MustCompile(`[0-9]+`)

// number returns the ID by which status and log name a fault. Errors that differ only in their digits have one ID.
func number(err error) string {
	sum := fnv.New32a()
	_, _ = sum.Write(digits.ReplaceAll([]byte(err.Error()), nil)) // it never fails
	return fmt.Sprintf("%08x", sum.Sum32())
}
