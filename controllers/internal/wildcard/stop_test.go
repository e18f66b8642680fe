package wildcard

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

// A cache whose server has been away for minutes is tried again every half minute, and yet stops at once.
func TestStop_WhileTheServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		shared, err := New(&rest.Config{Host: "https://kcp.invalid"}, cache.Options{
			Scheme: scheme, Mapper: live.Mapper(), HTTPClient: &http.Client{Transport: refuses{}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := shared.GetInformer(t.Context(), &ipamv1alpha1.IPClaim{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- shared.Start(ctx) }()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		stopped := time.Now()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if took := time.Since(stopped); took > 0 {
			t.Errorf("the cache stopped after %s", took)
		}
	})
}
