package door

import (
	"crypto/tls"
	"os"
)

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
