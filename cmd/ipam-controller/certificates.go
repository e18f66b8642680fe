package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"google.golang.org/grpc/credentials"
)

// etcdFiles are what a client of the external etcd shows and trusts; false without TLS.
func (o *options) etcdFiles() (clientFiles, bool) {
	return clientFiles{transport.TLSInfo{TrustedCAFile: o.etcdCAFile, CertFile: o.etcdCertFile, KeyFile: o.etcdKeyFile}},
		o.etcdCAFile != "" || o.etcdCertFile != ""
}

// clientFiles are credentials that are read again for each connection: when the files
// are replaced, by those of another CA too, the next connection is made by the new ones.
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

// OverrideServerName implements credentials.TransportCredentials. The name is that of
// the address.
func (f clientFiles) OverrideServerName(string) error { return nil }

// metricsTLS is the TLS configuration of /metrics; nil without TLS. With a client CA it requires
// a client certificate of that CA. The files are read again for each connection.
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
