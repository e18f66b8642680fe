package door

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/kcp-ipam/ipam/allocator/ledger"
)

// SecretName is the name of the Secret with the keys that all replicas share.
const SecretName = "ipam-webhook"

// Options say where the door is, and how it reaches the leader.
type Options struct {
	// Listener is where the door listens; the door closes it. Nil: there is no door, and what a former door has registered
	// is removed. Its connections may be Trustable.
	Listener net.Listener
	// Endpoint is where the API server reaches the listener. Required with a listener.
	Endpoint Endpoint
	// Files are the certificate to serve with. Default: a certificate of a CA that the replicas share.
	Files Files
	// Namespace of the Secret and of the controller's service account, whose name is Account.
	// Required.
	Namespace, Account string
	// Platform is the logical cluster of the platform. Required.
	Platform ledger.ClusterName
	// Standalone says that there is no kcp: the platform is the only cluster.
	Standalone bool
	// Peer is the address of the listener, as HOST:PORT, at which the other replicas reach it when this one leads.
	Peer string
	// Leader returns the address of the replica that leads, as it was given as Peer there; empty while that is not
	// known. Required with a listener.
	Leader func(context.Context) (string, error)
	// Also has handlers of further patterns. Each decides by itself who may call it. If there is one, the ConfigMap
	// [lookup.Address] tells people the door's address. Nil: there are none.
	Also map[string]http.Handler
	// Dial connects to the leader at Leader. Nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Door is a door that runs.
type Door struct{ server *server } // nil: there is no listener

// Lead tells the door that its replica leads. From now on the door asks this Decider, and not the leader.
func (d Door) Lead(own Decider) {
	if d.server != nil {
		d.server.own.Store(&own)
	}
}

// Setup adds the door to a manager of the platform, which runs the server on every replica, and the registration on the
// leader. Until Lead is called, the door asks the leader.
func Setup(mgr manager.Manager, opts Options) (Door, error) {
	// The client reads live: there is one object of each kind, and the controller has no right to list them.
	c, err := client.New(mgr.GetConfig(),
		client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return Door{}, fmt.Errorf("webhooks: %w", err)
	}
	if opts.Listener == nil {
		return Door{}, mgr.Add(&remover{client: c, clock: clock.RealClock{}, namespace: opts.Namespace})
	}
	ring := newKeyring(c, client.ObjectKey{Namespace: opts.Namespace, Name: SecretName}, opts.Endpoint.host(),
		clock.RealClock{})
	logger := mgr.GetLogger().WithName("door")
	server := newServer(newPeer(opts, ring.token, opts.identity(ring).Bundle), opts.onlyCluster(), ring.token)
	server.also = opts.Also
	return Door{server}, errors.Join(
		mgr.Add(ring),
		mgr.Add(serving(opts.Listener, opts.identity(ring).Certificate, server.handler(logger), logger)),
		mgr.Add(&registrar{client: c, clock: clock.RealClock{}, ready: ring.ready, wanted: func() (registration, error) {
			return opts.registration(ring)
		}}),
	)
}

// identity returns the files, if there are any, or the keyring.
func (o Options) identity(ring *keyring) identity {
	if o.Files.Cert != "" {
		return o.Files
	}
	return ring
}

// onlyCluster returns the logical cluster of all claims; empty on kcp.
func (o Options) onlyCluster() ledger.ClusterName {
	if o.Standalone {
		return o.Platform
	}
	return ""
}

// registration returns the registration that the API server needs now.
func (o Options) registration(ring *keyring) (registration, error) {
	bundle, err := o.identity(ring).Bundle()
	if err != nil {
		return registration{}, fmt.Errorf("the CA of the webhooks: %w", err)
	}
	r := registration{
		endpoint:   o.Endpoint,
		token:      ring.token(),
		bundle:     bundle,
		namespace:  o.Namespace,
		serves:     len(o.Also) > 0,
		controller: "system:serviceaccount:" + o.Namespace + ":" + o.Account,
	}
	if !o.Standalone {
		r.platform = o.Platform
	}
	return r, nil
}

// identity is how the door shows who it is.
type identity interface {
	// Certificate returns the certificate to serve with.
	Certificate() (*tls.Certificate, error)
	// Bundle returns the CAs that the API server has to trust, as PEM; empty: those that its system trusts.
	Bundle() ([]byte, error)
}

// Files are a certificate and a key that another program renews. They are read again for each
// connection, and each time the registration is checked.
type Files struct {
	// Cert and Key are the serving certificate and its key. The zero value is none.
	Cert, Key string
	// CA is the bundle to register. Default: none, and the API server trusts the CAs of its system.
	CA string
}

// Certificate implements identity.
func (f Files) Certificate() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// Bundle implements identity.
func (f Files) Bundle() ([]byte, error) {
	if f.CA == "" {
		return nil, nil
	}
	return os.ReadFile(f.CA)
}
