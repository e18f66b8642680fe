package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc/credentials"
)

// etcdFiles returns the files by which a client of the external etcd proves its identity, and checks that of etcd. It
// is false without TLS.
func (o *options) etcdFiles() (clientFiles, bool) {
	return clientFiles{transport.TLSInfo{TrustedCAFile: o.etcdCAFile, CertFile: o.etcdCertFile, KeyFile: o.etcdKeyFile}},
		o.etcdCAFile != "" || o.etcdCertFile != ""
}

// clientFiles are credentials that are read from their files for each connection. After the files are replaced, even by
// files of another CA, the next connection uses the new ones.
type clientFiles struct {
	info transport.TLSInfo
}

func (f clientFiles) check() error {
	_, err := f.info.ClientConfig()
	return err
}

// ClientHandshake implements credentials.TransportCredentials.
func (f clientFiles) ClientHandshake(
	ctx context.Context, authority string, conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
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

// OverrideServerName implements credentials.TransportCredentials. It does nothing: the name of the server is that in
// its address.
func (f clientFiles) OverrideServerName(string) error { return nil }

// metricsTLS returns the TLS configuration of /metrics; nil without TLS. If a client CA is configured, clients must
// show a certificate of that CA. The files are read again for each connection.
func (o *options) metricsTLS() (*tls.Config, error) {
	if o.metricsCertFile == "" {
		return nil, nil
	}
	info := transport.TLSInfo{CertFile: o.metricsCertFile, KeyFile: o.metricsKeyFile, TrustedCAFile: o.metricsClientCAFile}
	if _, err := info.ServerConfig(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         []string{"h2"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return info.ServerConfig() },
	}, nil
}
