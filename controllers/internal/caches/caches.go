// Package caches makes caches that stop within a bound.
package caches

import (
	"context"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// ending is how long a cache may take to stop: its handlers take milliseconds.
const ending = 5 * time.Second

// New makes a cache as [cache.New] does. Its Start returns at most five seconds after the context has ended. That of
// [cache.New] waits for informers, and an informer of client-go whose server is away pauses for up to a minute
// whether or not it is stopped.
func New(cfg *rest.Config, opts cache.Options) (cache.Cache, error) {
	made, err := cache.New(cfg, opts)
	if err != nil {
		return nil, err
	}
	return bounded{made}, nil
}

type bounded struct{ cache.Cache }

// Start implements cache.Informers.
func (b bounded) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- b.Cache.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(ending):
		return nil
	}
}
