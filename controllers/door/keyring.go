package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// lookInterval is how often the Secret and the registration are compared with what they
	// should be.
	lookInterval = 10 * time.Second
	// retryInterval is the pause after a first failure. It doubles with each further one, up to lookInterval.
	retryInterval = time.Second
)

// fieldOwner is the manager of the fields that this package writes.
const fieldOwner = client.FieldOwner("ipam-controller")

// keyring has the keys that the replicas of a platform share by a Secret, and the serving
// certificate of this replica, which is in memory alone. It is safe for concurrent use.
type keyring struct {
	client client.Client
	secret client.ObjectKey
	host   string // that the API server connects to
	clock  clock.WithTicker

	ready chan struct{} // closed when keys are there
	once  sync.Once

	mu   sync.RWMutex
	keys keys
	leaf *tls.Certificate
}

func newKeyring(c client.Client, secret client.ObjectKey, host string, clock clock.WithTicker) *keyring {
	return &keyring{client: c, secret: secret, host: host, clock: clock, ready: make(chan struct{})}
}

// NeedLeaderElection returns false: every replica has the keys.
func (r *keyring) NeedLeaderElection() bool { return false }

// Start follows the Secret until the context ends. While the Secret cannot be read, the keys that were read before stay
// in use.
func (r *keyring) Start(ctx context.Context) error {
	repeat(ctx, r.clock, func() error { return r.refresh(ctx) }, "the keys of the webhooks are not up to date")
	return nil
}

// repeat calls the function do at once, and then at every lookInterval, until the context ends. It logs failures, and
// retries with exponential backoff.
func repeat(ctx context.Context, clock clock.WithTicker, do func() error, failed string) {
	backoff := retryInterval
	for {
		wait := lookInterval
		if err := do(); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, failed)
			wait, backoff = backoff, min(2*backoff, lookInterval)
		} else {
			backoff = retryInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-clock.After(wait):
		}
	}
}

// refresh reads the Secret, renews in it what is missing or old, and uses the keys that are there then. It makes
// another serving certificate if that is due.
func (r *keyring) refresh(ctx context.Context) error {
	current, err := r.load(ctx)
	if apierrors.IsConflict(err) {
		current, err = r.load(ctx)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = current
	if signer := current.signer(r.clock.Now()); due(r.leaf, signer, r.clock.Now()) {
		if r.leaf, err = signer.issue(r.host, r.clock.Now()); err != nil {
			return err
		}
	}
	r.once.Do(func() { close(r.ready) })
	return nil
}

// load returns the keys in the Secret, renewed there if they have to be. A conflict means that
// another replica has written meanwhile.
func (r *keyring) load(ctx context.Context) (keys, error) {
	secret := &corev1.Secret{}
	err := r.client.Get(ctx, r.secret, secret)
	if apierrors.IsNotFound(err) {
		if err = r.create(ctx); err == nil {
			err = r.client.Get(ctx, r.secret, secret)
		}
	}
	if err != nil {
		return keys{}, fmt.Errorf("read secret %s: %w", r.secret, err)
	}
	known, err := decodeKeys(secret.Data)
	if err != nil {
		log.FromContext(ctx).Error(err, "the CAs of the webhooks are damaged, and made again", "secret", r.secret)
	}
	current, err := known.renewed(r.clock.Now())
	if err != nil {
		return keys{}, err
	}
	data, err := current.encode()
	if err != nil || maps.EqualFunc(data, secret.Data, slices.Equal[[]byte]) {
		return current, err
	}
	base := client.MergeFromWithOptions(secret.DeepCopy(), client.MergeFromWithOptimisticLock{})
	secret.Data = data
	if err := r.client.Patch(ctx, secret, base, fieldOwner); err != nil {
		return keys{}, fmt.Errorf("write secret %s: %w", r.secret, err)
	}
	log.FromContext(ctx).Info("the keys of the webhooks are new", "secret", r.secret,
		"authorities", len(current.authorities))
	return current, nil
}

// create makes an empty Secret. Replicas that do so at once make the same Secret, and its resourceVersion decides which
// of them fills it. The Secret is applied, and not created, because the right to apply can be limited to this name.
func (r *keyring) create(ctx context.Context) error {
	return r.client.Apply(ctx, corev1ac.Secret(r.secret.Name, r.secret.Namespace).WithType(corev1.SecretTypeOpaque),
		fieldOwner, client.ForceOwnership)
}

// token returns the secret part of the paths; empty while it is not known.
func (r *keyring) token() string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys.token
}

// Certificate implements identity.
func (r *keyring) Certificate() (*tls.Certificate, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.leaf == nil {
		return nil, errors.New("the certificate is not made yet")
	}
	return r.leaf, nil
}

// Bundle implements identity.
func (r *keyring) Bundle() ([]byte, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.keys.bundle()
}
