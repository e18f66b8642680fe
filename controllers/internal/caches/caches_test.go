package caches

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/controllers/internal/live"
)

// refuses is the way to a server that does not run.
type refuses struct{}

func (refuses) RoundTrip(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

// Of many caches whose server has been away for minutes, each somewhere in a pause of half a minute or more, all stop
// within the bound.
func TestNew_StopsWhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		const many = 20
		ended := make(chan error, many)
		for range many {
			made, err := New(&rest.Config{Host: "https://kcp.invalid"}, cache.Options{
				Scheme: scheme, Mapper: live.Mapper(), HTTPClient: &http.Client{Transport: refuses{}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := made.GetInformer(t.Context(), &ipamv1alpha1.IPClaim{}, cache.BlockUntilSynced(false)); err != nil {
				t.Fatal(err)
			}
			go func() { ended <- made.Start(ctx) }()
		}
		<-time.After(5 * time.Minute)
		stopped := time.Now()
		cancel()
		for range many {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(stopped); took > ending {
			t.Errorf("the last cache stopped after %s, want %s at most", took, ending)
		}
		<-time.After(2 * time.Minute) // What is left of their pauses.
	})
}
