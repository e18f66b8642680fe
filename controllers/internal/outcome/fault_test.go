package outcome_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/outcome"
)

// dialed returns the error of a client whose server is away. port is the client's own port.
func dialed(port int) error {
	refused := &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 6443}, Source: &net.TCPAddr{Port: port}, Err: errors.New("connection reset")}
	return &url.Error{Op: "Get", URL: "https://shard-1.kcp.internal:6443/clusters/2abc/apis", Err: refused}
}

// Users see a message by which they can act. Addresses of servers, URLs and errors of etcd are for the log.
func TestFailed_TellsUsersNothingOfTheServers(t *testing.T) {
	t.Parallel()
	private := regexp.MustCompile(`(?i)https?:|etcd|tcp|\d+\.\d+\.\d+\.\d+|/ipam/v1|kcp\.internal|2abc`)
	claims := schema.GroupResource{Group: ipamv1alpha1.GroupName, Resource: "ipclaims"}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"a ledger without etcd":  {fmt.Errorf("bind in pool p: %w: etcdserver: server stopped", ledger.ErrUnavailable), "the ledger is not available now"},
		"a closed ledger":        {ledger.ErrClosed, "the ledger is not available now"},
		"a key":                  {&ledger.DamageError{Key: "/ipam/v1/pools/2abc", Err: errors.New("etcd")}, "cannot read"},
		"a shard that is away":   {fmt.Errorf("read the claim: %w", dialed(50000)), "an internal fault (id "},
		"a slow shard":           {&url.Error{Op: "Get", URL: "https://10.0.0.1", Err: context.DeadlineExceeded}, "did not answer in time"},
		"a quota":                {apierrors.NewForbidden(claims, "c", errors.New("exceeded quota at 10.0.0.1")), "forbids"},
		"a webhook":              {apierrors.NewInternalError(errors.New(`failed calling webhook: Post "https://10.0.0.1:9443": dial tcp`)), "an internal fault (id "},
		"words for users":        {fmt.Errorf("in passing: %w", &outcome.Fault{Message: "say this", Err: dialed(1)}), "say this"},
		"words within a refusal": {&outcome.Fault{Message: "say this"}, "say this"},
	} {
		t.Run(name, func(t *testing.T) {
			refusal, logged := outcome.Failed(tt.err)
			if refusal.Reason != ipamv1alpha1.ReasonError || !strings.Contains(refusal.Message, tt.want) {
				t.Errorf("Failed(%v) = %v, want the reason %s and %q", tt.err, refusal, ipamv1alpha1.ReasonError, tt.want)
			}
			if found := private.FindString(refusal.Message); found != "" {
				t.Errorf("users are told %q, which has %q", refusal.Message, found)
			}
			if !errors.Is(logged, tt.err) || !strings.Contains(logged.Error(), tt.err.Error()) {
				t.Errorf("the log is told %q, want all of %q", logged, tt.err)
			}
		})
	}
}

// A fault that occurs again has the same message, even if a port in it differs. Another fault has another message.
func TestFailed_GivesAFaultOneNumber(t *testing.T) {
	t.Parallel()
	first, logged := outcome.Failed(dialed(50000))
	again, _ := outcome.Failed(dialed(50001))
	other, _ := outcome.Failed(errors.New("another"))
	if first.Message != again.Message || first.Message == other.Message {
		t.Errorf("two attempts are told as %q and %q, and another fault as %q", first, again, other)
	}
	id := regexp.MustCompile(`[0-9a-f]{8}`).FindString(first.Message)
	if id == "" || !strings.Contains(logged.Error(), id) {
		t.Errorf("users are told %q and the log %q, want one number in both", first, logged)
	}
}
