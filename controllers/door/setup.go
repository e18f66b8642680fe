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

// Options say where the door is, and who answers.
type Options struct {
	// Listener is where the door listens; the door closes it. Nil: there is none, and what is
	// registered is removed. Its connections may be Trustable.
	Listener net.Listener
	// Endpoint is where the API server reaches the listener. Required with a listener.
	Endpoint Endpoint
	// Files are the certificate to serve with. Default: one of a CA that the replicas share.
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
	// Also has handlers of further patterns. Each decides itself who may ask. With one of them, the ConfigMap
	// [lookup.Address] tells people the door's address. Nil: there are none.
	Also map[string]http.Handler
	// Dial connects to the leader at Leader. Nil: over the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Door is a door that runs.
type Door struct{ server *server } // nil: there is no listener

// Lead makes the door of this replica ask a Decider of its own from now on: it leads.
func (d Door) Lead(own Decider) {
	if d.server != nil {
		d.server.own.Store(&own)
	}
}

// Setup makes a manager of the platform run the door: on every replica the server, and on the
// leader the registration. Until it leads, the door asks the leader.
func Setup(mgr manager.Manager, opts Options) (Door, error) {
	// It reads live: there is one object of each kind, and no right to list them.
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
	// Certificate is the one to serve with.
	Certificate() (*tls.Certificate, error)
	// Bundle is the CAs by which it is known, as PEM; empty for those that the system of the API
	// server trusts.
	Bundle() ([]byte, error)
}

// Files are a certificate and a key that another program renews. They are read again for each
// connection, and each time the registration is checked.
type Files struct {
	// Cert and Key are the serving certificate and its key. The zero value is none.
	Cert, Key string
	// CA is the bundle to register. Default: the API server goes by what its system trusts.
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
