package live

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/allocator/ledger"
	"github.com/kcp-ipam/ipam/test/must"
)

// A census has the workspaces of all endpoints, to the last page, and the platform.
func TestCensus_HasTheWorkspacesOfAllEndpoints(t *testing.T) {
	a, b := newSite(t), newSite(t)
	a.bind("9", "u", "v")
	first := bindingList("9", "w")
	first.Continue = "page-2"
	b.serve(bindingsPath("*"), first)
	b.serve(bindingsPath("*")+"?page-2", bindingList("9", "x"))
	_, reader := newWorld(t, a, b)
	census, ok, err := reader.Census(t.Context())
	got := slices.Sorted(maps.Keys(census.Bound))
	if want := []ledger.ClusterName{"platform", "u", "v", "w", "x"}; err != nil || !ok || !slices.Equal(got, want) || census.Endpoints != 2 {
		t.Errorf("Census = %v at %d endpoints, %t, %v; want %v at 2", got, census.Endpoints, ok, err, want)
	}
}

// If a census may lack workspaces, it is not returned.
func TestCensus_NeedsEveryShard(t *testing.T) {
	here, away := newSite(t), newSite(t)
	here.bind("9", "w")
	away.Close()
	_, reader := newWorld(t, here, away)
	if _, ok, err := reader.Census(t.Context()); ok || err == nil {
		t.Errorf("Census = %t, %v; want an error", ok, err)
	}
}

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A server that never answers blocks nobody for longer than two reads may take.
func TestHolder_EndsWhileAServerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := must.Get(NewReader(Options{
			Config: &rest.Config{Host: "http://platform"}, Slice: "ipam.miloapis.com", Platform: "platform", Scheme: scheme(t),
		}))(t)
		reader.http = &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		reader.endpoints.read = func(context.Context) (view, error) { return view{urls: []string{"http://shard"}}, nil }
		for _, h := range []ledger.Holder{theClaim, {Claim: "uid-of-p", Cluster: "platform", Name: "p"}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			begun := time.Now()
			if answer, err := reader.Holder(ctx, h); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*readTimeout {
				t.Errorf("Holder(%s) = %v, %v after %v; want an error after %v at the latest", h.Name, answer.Verdict, err, time.Since(begun), 2*readTimeout)
			}
			cancel()
		}
		begun := time.Now()
		if _, ok, err := reader.Census(t.Context()); ok || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) > 2*readTimeout {
			t.Errorf("Census = %t, %v after %v; want an error after %v at the latest", ok, err, time.Since(begun), 2*readTimeout)
		}
	})
}
