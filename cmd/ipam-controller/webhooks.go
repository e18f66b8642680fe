package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/workspaces"
)

// webhookConnections is the number of open connections to the webhooks. One more closes the oldest of those without the
// token. A shard has as many connections as CREATEs in flight, unless it speaks HTTP/2.
const webhookConnections = 1024

// webhookOptions say where kcp reaches the webhooks, which answer the CREATE of claims.
type webhookOptions struct {
	address string
	url     string
	service string
	peer    string
	files   door.Files
}

func (o *webhookOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.address, "webhook-bind-address", o.address,
		"address of the webhooks by which kcp has the CREATE of a claim answered with its block, by TLS; "+
			"every replica serves them; 0 for none: CREATE then returns at once, and the claim is bound a moment later")
	f.StringVar(&o.url, "webhook-url", o.url,
		"https://HOST:PORT at which every shard of kcp reaches --webhook-bind-address; "+
			"with several replicas an address that leads to any of them; "+
			"empty: 127.0.0.1 and the port, for a kcp on this machine")
	f.StringVar(&o.service, "webhook-service", o.service,
		"the same, with --standalone on a Kubernetes cluster, as the Service NAMESPACE/NAME[:PORT]; instead of --webhook-url")
	f.StringVar(&o.peer, "webhook-peer-host", o.peer,
		"name or IP address at which the other replicas reach --webhook-bind-address when this one leads, "+
			"at the same port: they forward to it what kcp asks them; "+
			"empty: the address there, or the first one of this machine that is not loopback")
	f.StringVar(&o.files.Cert, "webhook-cert-file", o.files.Cert, "certificate of the webhooks, "+
		"for the host of --webhook-url; read again when it is replaced; "+
		"empty: the controller makes one, by a CA that the replicas share in the Secret "+door.SecretName)
	f.StringVar(&o.files.Key, "webhook-key-file", o.files.Key, "key of that certificate")
	f.StringVar(&o.files.CA, "webhook-ca-file", o.files.CA,
		"CA that signed that certificate, for kcp to check it by; empty: kcp goes by what its system trusts")
}

func (o *webhookOptions) validate(standalone bool) error {
	_, err := o.endpoint(&net.TCPAddr{})
	return errors.Join(check(
		rule{(o.files.Cert == "") != (o.files.Key == ""), "--webhook-cert-file and --webhook-key-file go together"},
		rule{o.files.CA != "" && o.files.Cert == "", "--webhook-ca-file goes with --webhook-cert-file"},
		rule{o.url != "" && o.service != "", "give --webhook-url or --webhook-service, not both"},
		rule{o.service != "" && !standalone,
			"--webhook-service goes with --standalone: kcp has no Services; give --webhook-url"},
		rule{strings.ContainsAny(o.peer, "/[]") || strings.Contains(o.peer, ":") && net.ParseIP(o.peer) == nil,
			fmt.Sprintf("--webhook-peer-host is %q; write a name or an IP address, without a port", o.peer)},
	), err)
}

// endpoint returns the endpoint at which kcp reaches the webhooks that listen at this address.
func (o *webhookOptions) endpoint(listening *net.TCPAddr) (door.Endpoint, error) {
	if o.service != "" {
		endpoint, err := door.ParseService(o.service)
		if err != nil {
			return endpoint, fmt.Errorf("--webhook-service is %q; %w", o.service, err)
		}
		return endpoint, nil
	}
	url := o.url
	if url == "" {
		at := *listening
		if len(at.IP) == 0 || at.IP.IsUnspecified() {
			at.IP = net.IPv4(127, 0, 0, 1)
		}
		url = "https://" + at.String()
	}
	endpoint, err := door.ParseURL(url)
	if err != nil {
		return endpoint, fmt.Errorf("--webhook-url is %q; %w", o.url, err)
	}
	return endpoint, nil
}

// reachable returns the address at which other machines reach a listener.
func reachable(listening net.IP) string {
	if len(listening) > 0 && !listening.IsUnspecified() {
		return listening.String()
	}
	own, _ := net.InterfaceAddrs() // without them, there is no network
	for _, address := range own {
		if of, ok := address.(*net.IPNet); ok && of.IP.IsGlobalUnicast() {
			return of.IP.String()
		}
	}
	return "127.0.0.1"
}

// listen returns the options of the door, with a listener that is open. If no address is configured, they have no
// listener.
func (o *webhookOptions) listen(ctx context.Context) (door.Options, error) {
	opts := door.Options{Namespace: workspaces.ControllerNamespace, Account: workspaces.ControllerAccount, Files: o.files}
	if o.address == nowhere {
		return opts, nil
	}
	if o.files.Cert != "" {
		if _, err := o.files.Certificate(); err != nil {
			return opts, fmt.Errorf("--webhook-cert-file, --webhook-key-file: %w", err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.address)
	if err != nil {
		return opts, fmt.Errorf("--webhook-bind-address: %w", err)
	}
	opts.Listener = &bounded{Listener: listener, most: webhookConnections}
	at := listener.Addr().(*net.TCPAddr)
	opts.Peer = net.JoinHostPort(cmp.Or(o.peer, reachable(at.IP)), strconv.Itoa(at.Port))
	opts.Endpoint, err = o.endpoint(at)
	return opts, err
}
