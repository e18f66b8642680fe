package door

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// authorityLife is how long a CA is valid. When half of that time is over, another CA is made.
	authorityLife = 2 * 365 * 24 * time.Hour
	// leafLife is how long a serving certificate is valid. When two thirds of that time are over, another certificate is
	// made.
	leafLife = 30 * 24 * time.Hour
	// backdate is how far the clock of a verifier may be behind.
	backdate = time.Hour
	// settling is how long a new CA signs nothing while there is an older one. After that time every client trusts the new
	// CA.
	settling = time.Hour
)

// authority is a CA of the platform: its certificate and its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// newAuthority makes a CA that is valid from now on.
func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("make a CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "ipam-webhook CA"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	cert, err := sign(template, template, &key.PublicKey, key)
	if err != nil {
		return authority{}, fmt.Errorf("make a CA: %w", err)
	}
	return authority{cert, key}, nil
}

// issue makes a serving certificate for a host: a DNS name or an IP address.
func (a authority) issue(host string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "ipam-webhook"},
		NotBefore:   now.Add(-backdate),
		NotAfter:    earliest(now.Add(leafLife), a.cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	leaf, err := sign(template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", host, err)
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// sign makes a certificate. x509 gives it a random serial number.
func sign(
	template, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey,
) (*x509.Certificate, error) {
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, public, signer)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(raw)
}

// due reports whether another serving certificate has to be made: there is none, two thirds of its life are over, or
// this CA has not signed it.
func due(leaf *tls.Certificate, by authority, now time.Time) bool {
	return leaf == nil || now.After(leaf.Leaf.NotAfter.Add(-leafLife/3)) || leaf.Leaf.CheckSignatureFrom(by.cert) != nil
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// encode returns the certificate and the key as PEM.
func (a authority) encode() (cert, key []byte, err error) {
	private, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("write the key of a CA: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), nil
}

// decodeAuthorities reads CAs from PEM: as many certificates as keys, in the same order.
func decodeAuthorities(certs, keys []byte) ([]authority, error) {
	var list []authority
	for {
		cert, moreCerts := pem.Decode(certs)
		key, moreKeys := pem.Decode(keys)
		if cert == nil && key == nil {
			return list, nil
		}
		if cert == nil || key == nil {
			return nil, errors.New("there are not as many keys as certificates")
		}
		a, err := decodeAuthority(cert.Bytes, key.Bytes)
		if err != nil {
			return nil, err
		}
		list, certs, keys = append(list, a), moreCerts, moreKeys
	}
}

func decodeAuthority(cert, key []byte) (authority, error) {
	parsed, err := x509.ParseCertificate(cert)
	if err != nil {
		return authority{}, err
	}
	private, err := x509.ParsePKCS8PrivateKey(key)
	if err != nil {
		return authority{}, err
	}
	signer, ok := private.(*ecdsa.PrivateKey)
	if !ok || !signer.PublicKey.Equal(parsed.PublicKey) {
		return authority{}, errors.New("a key is not that of its certificate")
	}
	return authority{parsed, signer}, nil
}
