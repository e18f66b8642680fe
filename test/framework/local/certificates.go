package local

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// lifetime is the validity of certificates: longer than any test.
const lifetime = 24 * time.Hour

// pair is a certificate and its key, as PEM.
type pair struct{ cert, key []byte }

// authority signs the certificates by which the servers of one kcp, and their clients, know each other.
type authority struct {
	pair
	parsed *x509.Certificate
	signer *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	a := &authority{parsed: template}
	var err error
	if a.signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	if a.pair, err = a.sign(template, a.signer); err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	block, _ := pem.Decode(a.cert)
	if a.parsed, err = x509.ParseCertificate(block.Bytes); err != nil {
		return nil, fmt.Errorf("authority %s: %w", name, err)
	}
	return a, nil
}

// server makes a certificate for a server of this machine.
func (a *authority) server() (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	})
}

// client makes a certificate for a client with a name, in a group.
func (a *authority) client(name, group string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name, Organization: []string{group}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, fmt.Errorf("certificate for %s: %w", template.Subject, err)
	}
	made, err := a.sign(template, key)
	if err != nil {
		return pair{}, fmt.Errorf("certificate for %s: %w", template.Subject, err)
	}
	return made, nil
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (pair, error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Minute)
	template.NotAfter = time.Now().Add(lifetime)
	cert, err := x509.CreateCertificate(rand.Reader, template, a.parsed, &key.PublicKey, a.signer)
	if err != nil {
		return pair{}, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
	}, nil
}
