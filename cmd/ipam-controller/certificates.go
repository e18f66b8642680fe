package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc/credentials"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// etcdFiles are what a client of the external etcd shows and trusts; false without TLS.
func (o *options) etcdFiles() (clientFiles, bool) {
	return clientFiles{transport.TLSInfo{TrustedCAFile: o.etcdCAFile, CertFile: o.etcdCertFile, KeyFile: o.etcdKeyFile}},
		o.etcdCAFile != "" || o.etcdCertFile != ""
}

// clientFiles are credentials that are read anew for each connection: when the files
// are replaced, by those of another CA too, the next connection is made by the new ones.
type clientFiles struct {
	info transport.TLSInfo
}

func (f clientFiles) check() error {
	_, err := f.info.ClientConfig()
	return err
}

// ClientHandshake implements credentials.TransportCredentials.
func (f clientFiles) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	cfg, err := f.info.ClientConfig()
	if err != nil {
		return nil, nil, err
	}
	return credentials.NewTLS(cfg).ClientHandshake(ctx, authority, conn)
}

// ServerHandshake implements credentials.TransportCredentials.
func (f clientFiles) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these are the credentials of a client")
}

// Info implements credentials.TransportCredentials.
func (f clientFiles) Info() credentials.ProtocolInfo { return credentials.NewTLS(nil).Info() }

// Clone implements credentials.TransportCredentials.
func (f clientFiles) Clone() credentials.TransportCredentials { return f }

// OverrideServerName implements credentials.TransportCredentials. The name is that of
// the address.
func (f clientFiles) OverrideServerName(string) error { return nil }

// metrics is how /metrics is served: in the clear, or by TLS to those whose certificate
// is of the CA. The files are read anew for each connection.
func (o *options) metrics() (metricsserver.Options, error) {
	served := metricsserver.Options{BindAddress: o.metricsAddress}
	if o.metricsCertFile == "" {
		return served, nil
	}
	info := transport.TLSInfo{CertFile: o.metricsCertFile, KeyFile: o.metricsKeyFile, TrustedCAFile: o.metricsClientCAFile}
	if _, err := info.ServerConfig(); err != nil {
		return served, err
	}
	served.SecureServing = true
	served.TLSOpts = []func(*tls.Config){func(cfg *tls.Config) {
		cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return info.ServerConfig() }
		cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("no certificate") }
	}}
	return served, nil
}
