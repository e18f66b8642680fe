package door

import (
	"bytes"
	"crypto/rand"
	"slices"
	"strings"
	"time"
)

// Entries of the Secret.
const (
	entryToken = "token"
	entryCerts = "ca.crt"
	entryKeys  = "ca.key"
)

// minToken is the least length of a token. A shorter one is damaged.
const minToken = 20

// keys are what all replicas of a platform share. The zero value has nothing.
type keys struct {
	// token is the secret part of the paths.
	token string
	// authorities are the CAs that are trusted, the newest first.
	authorities []authority
}

// decodeKeys reads keys from the data of a Secret. A damaged token is left out. If a CA is damaged, all CAs are left
// out, and the error says why.
func decodeKeys(data map[string][]byte) (keys, error) {
	k := keys{}
	if token := string(data[entryToken]); len(token) >= minToken && pathSafe(token) {
		k.token = token
	}
	var err error
	k.authorities, err = decodeAuthorities(data[entryCerts], data[entryKeys])
	return k, err
}

// pathSafe reports whether a token can be one segment of a path without escaping. Kubernetes takes no capital letters
// in the path of a Service.
func pathSafe(token string) bool {
	return !slices.ContainsFunc([]byte(token), func(c byte) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// encode returns the keys as the data of a Secret.
func (k keys) encode() (map[string][]byte, error) {
	data := map[string][]byte{entryToken: []byte(k.token)}
	for _, a := range k.authorities {
		cert, key, err := a.encode()
		if err != nil {
			return nil, err
		}
		data[entryCerts] = append(data[entryCerts], cert...)
		data[entryKeys] = append(data[entryKeys], key...)
	}
	return data, nil
}

// renewed returns the keys as they should be now: without CAs that have expired, with another CA when half of the
// newest CA's life is over, and with a token.
func (k keys) renewed(now time.Time) (keys, error) {
	k.authorities = slices.DeleteFunc(slices.Clone(k.authorities), func(a authority) bool {
		return now.After(a.cert.NotAfter)
	})
	if len(k.authorities) == 0 || now.After(k.authorities[0].cert.NotAfter.Add(-authorityLife/2)) {
		another, err := newAuthority(now)
		if err != nil {
			return keys{}, err
		}
		k.authorities = slices.Insert(k.authorities, 0, another)
	}
	if k.token == "" {
		k.token = strings.ToLower(rand.Text())
	}
	return k, nil
}

// signer returns the CA that signs serving certificates: the newest CA that every client trusts, or else the oldest.
func (k keys) signer(now time.Time) authority {
	for _, a := range k.authorities {
		if made := a.cert.NotBefore.Add(backdate); !now.Before(made.Add(settling)) {
			return a
		}
	}
	return k.authorities[len(k.authorities)-1]
}

// bundle returns the certificates of all CAs, as PEM.
func (k keys) bundle() ([]byte, error) {
	data, err := k.encode()
	return bytes.Clone(data[entryCerts]), err
}
