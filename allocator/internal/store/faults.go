package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
)

// probeTimeout bounds the search for what is wrong with a connection.
const probeTimeout = 200 * time.Millisecond

func explained(client *clientv3.Client, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = connection(client.ActiveConnection(), err)
	}
	if words := explain(err); words != "" {
		return fmt.Errorf("%w: %s: %w", ledger.ErrUnavailable, words, err)
	}
	return fmt.Errorf("%w: %w", ledger.ErrUnavailable, err)
}

// faults explains the faults of etcd in plain words. The first entry that matches an error counts. An entry matches by
// one of etcd's errors, or by a sign in the error's text.
var faults = []struct {
	words string
	errs  []error
	signs []string
}{
	{
		words: "etcd's database is full (NOSPACE): compact and defragment it, or raise its quota, then disarm the alarm",
		errs:  []error{rpctypes.ErrNoSpace},
	},
	{words: "etcd reports a corrupt member: replace that member", errs: []error{rpctypes.ErrCorrupt}},
	{
		words: "the etcd user may not read and write the ledger's keys: grant readwrite on its prefix",
		errs:  []error{rpctypes.ErrPermissionDenied},
	},
	{words: "etcd refused the credentials", errs: []error{
		rpctypes.ErrUserEmpty, rpctypes.ErrAuthFailed, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
	}},
	{words: "etcd has no leader at the moment", errs: []error{
		rpctypes.ErrNoLeader, rpctypes.ErrLeaderChanged, rpctypes.ErrTimeoutDueToLeaderFail,
	}},
	{
		words: "TLS with etcd fails: check the CA, the certificate and its key, on both sides",
		signs: []string{"x509:", "tls:", "handshake failed"},
	},
	{words: "etcd cannot be reached", signs: []string{"connection refused", "no such host", "no route to host"}},
	{words: "etcd did not answer in time", errs: []error{
		context.DeadlineExceeded, rpctypes.ErrTimeout, rpctypes.ErrTimeoutDueToConnectionLost,
	}},
}

// explain returns the words for an error; empty: there are none.
func explain(err error) string {
	for _, f := range faults {
		if isOneOf(err, f.errs...) || says(err, f.signs...) {
			return f.words
		}
	}
	return ""
}

// says reports whether an error contains one of the signs. The errors of a
// connection reach us as text.
func says(err error, signs ...string) bool {
	return slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(err.Error(), sign) })
}

// connection returns the error timeout, and adds the reason if there is no connection to etcd. A request of the client
// waits for a connection until its time is over, and then reports only a timeout. A client of a server in this process
// has no connection.
func connection(conn *grpc.ClientConn, timeout error) error {
	if conn == nil || conn.GetState() == connectivity.Ready {
		return timeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	_, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{}, grpc.WaitForReady(false))
	if err == nil {
		return timeout
	}
	return fmt.Errorf("%w: %w", timeout, err)
}

// isOneOf reports whether err is one of the given errors, whether it came over the network or from a server in this
// process.
func isOneOf(err error, any ...error) bool {
	for _, target := range any {
		if errors.Is(rpctypes.Error(err), target) {
			return true
		}
	}
	return false
}

// Refused reports whether etcd refused a transaction before the transaction could be committed. NOSPACE does not count,
// because etcd also answers so to the last transaction that it still takes.
func Refused(err error) bool {
	if isOneOf(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	var answer rpctypes.EtcdError
	if !errors.As(rpctypes.Error(err), &answer) {
		return false
	}
	switch answer.Code() {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated:
		return true
	default:
		return false
	}
}

// Gone reports whether this process does not have the ledger any more.
func Gone(err error) bool {
	return errors.Is(err, ledger.ErrDeposed) || errors.Is(err, ledger.ErrReplaced)
}

// Compacted reports whether etcd has forgotten the revision that was asked for.
func Compacted(err error) bool { return isOneOf(err, rpctypes.ErrCompacted) }

// NoSpace reports whether etcd's database is full.
func NoSpace(err error) bool { return isOneOf(err, rpctypes.ErrNoSpace) }

// TooLarge reports whether etcd refused a transaction for its size.
func TooLarge(err error) bool {
	return isOneOf(err, rpctypes.ErrTooManyOps, rpctypes.ErrRequestTooLarge)
}
