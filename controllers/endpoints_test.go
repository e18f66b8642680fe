package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/test/must"
)

// The controller is not ready before it has seen the endpoint slice, nor while kcp finds the slice invalid, as when the
// APIExport is deleted. While kcp does not answer, the readiness stays as it was.
func TestEndpointsCheck_IsReadyWhileTheSliceIsValid(t *testing.T) {
	t.Parallel()
	invalid, away := fmt.Errorf("it has no export: %w", live.ErrInvalid), errors.New("connection refused")
	c := newEndpointsCheck(&live.Reader{}, clock.RealClock{})
	c.others = func(context.Context) error { return away }
	for _, step := range []struct {
		says  error
		ready bool
	}{{away, false}, {invalid, false}, {nil, true}, {away, true}, {invalid, false}, {away, false}, {nil, true}} {
		c.valid = func(context.Context) error { return step.says }
		c.look(t.Context())
		if err := c.check(nil); (err == nil) != step.ready {
			t.Fatalf("when a read says %v, the check says %v; want ready: %t", step.says, err, step.ready)
		}
	}
}

// A replica is blind when its server has refused it, or hung, for a while. It says so, and is not ready, until the
// server answers again. That the slice does not exist is an answer, too: the replica sees, but is not ready.
func TestEndpointsCheck_IsBlindAfter30SecondsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(w http.ResponseWriter, back <-chan struct{}){
		"unauthorized": func(w http.ResponseWriter, _ <-chan struct{}) { w.WriteHeader(http.StatusUnauthorized) },
		"forbidden":    func(w http.ResponseWriter, _ <-chan struct{}) { w.WriteHeader(http.StatusForbidden) },
		"cut off":      func(http.ResponseWriter, <-chan struct{}) { panic(http.ErrAbortHandler) },
		"hangs":        func(_ http.ResponseWriter, back <-chan struct{}) { <-back },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var isAway atomic.Bool
			back := make(chan struct{})
			isAway.Store(true)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if isAway.Load() {
					away(w, back)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				absent := apierrors.NewNotFound(apisv1alpha1.Resource("apiexportendpointslices"), "slice").Status()
				absent.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				_ = json.NewEncoder(w).Encode(absent)
			}))
			t.Cleanup(server.Close)
			scheme := must.Get(Scheme())(t)
			reader := must.Get(live.NewReader(live.Options{Config: &rest.Config{Host: server.URL}, Slice: "slice", Platform: "platform", Scheme: scheme}))(t)
			now := clocktesting.NewFakePassiveClock(time.Now())
			c := newEndpointsCheck(reader, now)
			look := func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second/10)
				defer cancel()
				if !isAway.Load() {
					close(back)
					ctx = t.Context()
				}
				c.look(ctx)
			}
			for _, step := range []struct {
				passes time.Duration
				away   bool
				sees   bool
			}{{0, true, true}, {blind - 1, true, true}, {1, true, false}, {time.Hour, true, false}, {0, false, true}, {blind, true, false}} {
				now.SetTime(now.Now().Add(step.passes))
				isAway.Store(step.away)
				look()
				if err := c.sees(); (err == nil) != step.sees || c.check(nil) == nil {
					t.Errorf("after %v, away: %t: %v, ready: %v; want it to see: %t, and not to be ready", step.passes, step.away, err, c.check(nil), step.sees)
				}
			}
		})
	}
}

// While the platform's server is away, the answer of any other server is enough. Once the platform's server has refused
// the replica, the replica is blind until that server lets it in, even if that server is away meanwhile.
func TestEndpointsCheck_AsksOtherServersWhileThePlatformIsAway(t *testing.T) {
	t.Parallel()
	away, none := errors.New("connection refused"), error(nil)
	refused := apierrors.NewForbidden(apisv1alpha1.Resource("apiexportendpointslices"), "slice", errors.New("no"))
	ended := apierrors.NewUnauthorized("the token has ended")
	now := clocktesting.NewFakePassiveClock(time.Now())
	c := newEndpointsCheck(&live.Reader{}, now)
	for i, step := range []struct {
		platform, others error
		sees             bool
	}{
		{none, away, true}, {away, none, true}, {away, none, true}, {away, away, false}, {away, none, true}, // another shard is back
		{refused, none, false}, {away, none, false}, {none, away, true}, {ended, none, false}, {none, away, true},
	} {
		now.SetTime(now.Now().Add(blind))
		c.valid = func(context.Context) error { return step.platform }
		c.others = func(context.Context) error { return step.others }
		c.look(t.Context())
		if err := c.sees(); (err == nil) != step.sees || (c.check(nil) == nil) != step.sees {
			t.Errorf("step %d, the platform says %v, the others %v: it sees %v, ready: %v; want it to see, and to be ready: %t",
				i, step.platform, step.others, err, c.check(nil), step.sees)
		}
	}
}
