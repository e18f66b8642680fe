package workspaces

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/utils/clock"
)

const (
	// tokenLifetime is how long a renewed token is to last. Servers grant 10 minutes at least.
	tokenLifetime = time.Hour
	// requestTimeout bounds a request for a token, for which the requests of the controller wait.
	requestTimeout = 10 * time.Second
	// renewRetry is the pause after a request for a token that failed while the old one is valid.
	renewRetry = 10 * time.Second
)

// Renewal says how the controller's access is renewed.
type Renewal struct {
	// Reach returns the access by which tokens are asked for, to the cluster or the workspace of the controller. It is
	// called for each token, so that a kubeconfig may be replaced meanwhile. Required.
	Reach func() (*rest.Config, error)
	// Lifetime of a token. A new one is asked for after four fifths of what the server grants. Default: an hour.
	Lifetime time.Duration
	// Clock tells the time. Default: the system's.
	Clock clock.PassiveClock
	// Logger is told when there is no new token. Default: nothing is logged.
	Logger logr.Logger
}

// RenewedConfig returns the access of the controller's service account, by tokens that are renewed before they end.
// The access has no other credential, and no token is stored. RenewedConfig returns when the server has granted the
// first token, for which Reach's access needs what [TokenConfig] needs. While the server grants no new token, the old
// one is used to its end, and the reason is logged. The access is safe for concurrent use.
func RenewedConfig(ctx context.Context, opts Renewal) (*rest.Config, error) {
	if opts.Lifetime == 0 {
		opts.Lifetime = tokenLifetime
	}
	if opts.Clock == nil {
		opts.Clock = clock.RealClock{}
	}
	cfg, err := opts.Reach()
	if err != nil {
		return nil, err
	}
	r := &renewal{Renewal: opts}
	what := fmt.Sprintf("%s to grant a token to the service account %s/%s",
		cfg.Host, ControllerNamespace, ControllerAccount)
	err = await(ctx, what, func(context.Context) error {
		_, err := r.Token()
		return err
	})
	if err != nil {
		return nil, err
	}
	controller := rest.AnonymousClientConfig(cfg)
	controller.Wrap(transport.ResettableTokenSourceWrapTransport(r))
	return controller, nil
}

// renewal hands out tokens, and asks for a new one when it is time. It is an oauth2.TokenSource.
type renewal struct {
	Renewal
	held   atomic.Pointer[heldToken] // nil: there is none
	flight singleflight.Group        // callers that need a token share one request
}

// heldToken is a token, the time at which it was asked for, the time for the next request, and the end of the token.
type heldToken struct {
	text              string
	asked, renew, end time.Time
}

// Token returns a token that is valid now.
func (r *renewal) Token() (*oauth2.Token, error) {
	held := r.held.Load()
	if held == nil || !r.Clock.Now().Before(held.renew) {
		renewed, err, _ := r.flight.Do("", func() (any, error) { return r.next() })
		if err != nil {
			return nil, err
		}
		held = renewed.(*heldToken)
	}
	return &oauth2.Token{AccessToken: held.text}, nil
}

// next asks for a token and keeps it. If the server grants none, next returns the old token until that ends.
func (r *renewal) next() (*heldToken, error) {
	old, now := r.held.Load(), r.Clock.Now()
	if old != nil && now.Before(old.renew) {
		return old, nil // another caller has renewed it
	}
	next, err := r.ask(now)
	if err == nil {
		r.held.Store(next)
		return next, nil
	}
	if old == nil || !now.Before(old.end) {
		return nil, err
	}
	r.Logger.Error(err, "no new token: the old one is used to its end", "end", old.end)
	retry := *old
	retry.renew = now.Add(renewRetry)
	r.held.Store(&retry)
	return &retry, nil
}

func (r *renewal) ask(now time.Time) (*heldToken, error) {
	cfg, err := r.Reach()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	granted, err := RequestToken(ctx, cfg, r.Lifetime)
	if err != nil {
		return nil, fmt.Errorf("request a token of the service account %s/%s: %w",
			ControllerNamespace, ControllerAccount, err)
	}
	end := granted.ExpirationTimestamp.Time
	// By a clock that is ahead of the server's, a token may end before it begins.
	usable := max(renewRetry, end.Sub(now)*4/5)
	return &heldToken{text: granted.Token, asked: now, renew: now.Add(usable), end: end}, nil
}

// ResetTokenOlderThan forgets a token that was asked for before the time then, because the server did not accept it.
func (r *renewal) ResetTokenOlderThan(then time.Time) {
	if held := r.held.Load(); held != nil && held.asked.Before(then) {
		r.held.CompareAndSwap(held, nil)
	}
}
