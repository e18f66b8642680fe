package caches

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
	"github.com/kcp-ipam/ipam/controllers/internal/wildcard"
	"github.com/kcp-ipam/ipam/test/must"
	"github.com/kcp-ipam/ipam/test/testbed"
)

// refuses is a transport to a server that does not run.
type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// The server of many caches has been away for minutes, so each cache pauses for half a minute or more. When they are
// stopped, all of them end within a bound. The caches of the endpoints end at once, because other components wait for
// that.
func TestStart_EndsWhileTheServerIsAway(t *testing.T) {
	for name, kind := range map[string]struct {
		open  func(*rest.Config, cache.Options) (cache.Cache, error)
		bound time.Duration
	}{
		"of the platform": {New, ending},
		"of an endpoint":  {func(cfg *rest.Config, opts cache.Options) (cache.Cache, error) { return wildcard.New(cfg, opts) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const many = 20
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, many)
				for range many {
					away := awayCache(t, kind.open)
					go func() { ended <- away.Start(ctx) }()
				}
				<-time.After(5 * time.Minute)
				stopped := time.Now()
				cancel()
				for range many {
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(stopped); took > kind.bound {
					t.Errorf("the last cache stopped after %s, want %s at most", took, kind.bound)
				}
				<-time.After(2 * time.Minute) // The rest of their pauses.
			})
		})
	}
}

// awayCache is a cache of claims whose server is away.
func awayCache(t *testing.T, open func(*rest.Config, cache.Options) (cache.Cache, error)) cache.Cache {
	t.Helper()
	made := must.Get(open(&rest.Config{Host: "https://kcp.invalid"}, cache.Options{
		Scheme: testbed.Scheme(t), Mapper: live.Mapper(), HTTPClient: &http.Client{Transport: refuses{}},
	}))(t)
	must.Get(made.GetInformer(t.Context(), &ipamv1alpha1.IPClaim{}, cache.BlockUntilSynced(false)))(t)
	return made
}
