package door

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kcp-ipam/ipam/test/must"
)

// ringAt returns a keyring that has read its Secret.
func ringAt(t *testing.T, c client.Client, clock *clocktesting.FakeClock) *keyring {
	t.Helper()
	ring := newKeyring(c, secretKey, "ipam.example.org", clock)
	refresh(t, ring)
	return ring
}

func refresh(t *testing.T, rings ...*keyring) {
	t.Helper()
	for _, ring := range rings {
		must.Do(t, ring.refresh(t.Context()))
	}
}

// trusts returns an error unless a bundle trusts the certificate that a keyring serves with.
func trusts(t *testing.T, bundle []byte, ring *keyring, now time.Time) error {
	t.Helper()
	leaf, err := ring.Certificate()
	must.Do(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(bundle)
	_, err = leaf.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: "ipam.example.org", CurrentTime: now})
	return err
}

func bundleOf(t *testing.T, ring *keyring) []byte {
	t.Helper()
	return must.Get(ring.Bundle())(t)
}

// Replicas have the same token, and trust each other's certificates. Each has a certificate of its own.
func TestKeyring_GivesReplicasOneToken(t *testing.T) {
	c, clock := newFake(), clocktesting.NewFakeClock(time.Now())
	first, second := ringAt(t, c, clock), ringAt(t, c, clock)
	if len(first.token()) < minToken || first.token() != second.token() {
		t.Errorf("the tokens are %q and %q, want one of at least %d characters", first.token(), second.token(), minToken)
	}
	for _, bundle := range [][]byte{bundleOf(t, first), bundleOf(t, second)} {
		for _, ring := range []*keyring{first, second} {
			if err := trusts(t, bundle, ring, clock.Now()); err != nil {
				t.Errorf("a certificate is not trusted: %v", err)
			}
		}
	}
	if first.leaf.Leaf.Equal(second.leaf.Leaf) {
		t.Error("two replicas serve with the same certificate")
	}
}

// A replica that has lost the race to fill the Secret takes what the other has written.
func TestKeyring_TakesWhatAnotherReplicaHasWritten(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	var other *keyring
	c := newFake()
	raced := interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if other == nil {
				other = ringAt(t, c, clock)
			}
			return w.Patch(ctx, object, patch, opts...)
		},
	})
	if ring := ringAt(t, raced, clock); ring.token() != other.token() {
		t.Errorf("the tokens are %s and %s, want one", ring.token(), other.token())
	}
}

// For five years, each certificate that is served is trusted by the bundle that was registered an hour before. The
// bundles stay small.
func TestKeyring_ServesCertificatesThatAnOlderBundleTrusts(t *testing.T) {
	const step, years = 5 * 24 * time.Hour, 5 * 365 * 24 * time.Hour
	c, clock := newFake(), clocktesting.NewFakeClock(time.Now())
	rings := []*keyring{ringAt(t, c, clock), ringAt(t, c, clock)}
	token, authorities, leaves := rings[0].token(), 0, map[string]bool{}
	for range years / step {
		clock.Step(step - settling)
		refresh(t, rings...)
		registered := bundleOf(t, rings[0])
		clock.Step(settling)
		refresh(t, rings...)
		for _, ring := range rings {
			if err := trusts(t, registered, ring, clock.Now()); err != nil {
				t.Fatalf("at %s: %v", clock.Now(), err)
			}
			leaves[ring.leaf.Leaf.SerialNumber.String()] = true
		}
		authorities = max(authorities, len(rings[0].keys.authorities))
	}
	if rings[0].token() != token {
		t.Error("the token has changed, want it to stay")
	}
	if authorities < 2 || authorities > 3 {
		t.Errorf("the bundle has had up to %d CAs, want the old one beside the new one, and no more than 3", authorities)
	}
	if got, least, most := len(leaves)/len(rings), int(years/leafLife), int(years/(leafLife/2)); got < least || got > most {
		t.Errorf("each replica has made %d certificates, want %d to %d", got, least, most)
	}
}

// A damaged token or CA in the Secret is made again, and the other stays. After that, nothing more is written.
func TestKeyring_ReplacesOnlyWhatIsDamaged(t *testing.T) {
	for name, tt := range map[string]struct {
		damage   func(map[string][]byte)
		newToken bool
		newCA    bool
	}{
		"nothing":              {func(map[string][]byte) {}, false, false},
		"no token":             {func(d map[string][]byte) { delete(d, entryToken) }, true, false},
		"a short token":        {func(d map[string][]byte) { d[entryToken] = []byte("a") }, true, false},
		"capital letters":      {func(d map[string][]byte) { d[entryToken] = bytes.ToUpper(d[entryToken]) }, true, false},
		"a token with slashes": {func(d map[string][]byte) { d[entryToken] = []byte("aaaaaaaaaaaaaaaaaaaaaaaa/../b") }, true, false},
		"no certificate":       {func(d map[string][]byte) { delete(d, entryCerts) }, false, true},
		"no key":               {func(d map[string][]byte) { d[entryKeys] = nil }, false, true},
		"a broken certificate": {func(d map[string][]byte) {
			d[entryCerts] = []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
		}, false, true},
		"another's key": {func(d map[string][]byte) { d[entryKeys] = anotherKey(t) }, false, true},
		"everything":    {func(d map[string][]byte) { clear(d) }, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, clock := newFake(), clocktesting.NewFakeClock(time.Now())
			ring := ringAt(t, c, clock)
			token, bundle, secret := ring.token(), bundleOf(t, ring), &corev1.Secret{}
			must.Do(t, c.Get(t.Context(), secretKey, secret))
			tt.damage(secret.Data)
			must.Do(t, c.Update(t.Context(), secret))
			refresh(t, ring)
			if got := ring.token() != token; got != tt.newToken {
				t.Errorf("the token is new: %t, want %t", got, tt.newToken)
			}
			if got := !slices.Equal(bundleOf(t, ring), bundle); got != tt.newCA {
				t.Errorf("the CA is new: %t, want %t", got, tt.newCA)
			}
			if err := trusts(t, bundleOf(t, ring), ring, clock.Now()); err != nil {
				t.Errorf("the certificate is not trusted: %v", err)
			}
			before := resourceVersion(t, c)
			refresh(t, ring)
			if after := resourceVersion(t, c); after != before {
				t.Errorf("the Secret was written again: revision %s, want %s", after, before)
			}
		})
	}
}

func anotherKey(t *testing.T) []byte {
	t.Helper()
	other := must.Get(newAuthority(time.Now()))(t)
	_, key, err := other.encode()
	must.Do(t, err)
	return key
}

func resourceVersion(t *testing.T, c client.Client) string {
	t.Helper()
	secret := &corev1.Secret{}
	must.Do(t, c.Get(t.Context(), secretKey, secret))
	return secret.ResourceVersion
}

// While the Secret cannot be read, the keys stay in use. A Secret that was deleted is made again, with another token.
func TestKeyring_KeepsTheKeysWhileTheSecretCannotBeRead(t *testing.T) {
	clock, away := clocktesting.NewFakeClock(time.Now()), error(nil)
	c := interceptor.NewClient(newFake(), interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if away != nil {
				return away
			}
			return w.Get(ctx, key, object, opts...)
		},
	})
	ring := ringAt(t, c, clock)
	token := ring.token()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, secretKey.Name, nil)
	for _, away = range []error{forbidden, context.Canceled, context.DeadlineExceeded} {
		if err := ring.refresh(t.Context()); !errors.Is(err, away) || ring.token() != token {
			t.Errorf("refresh = %v with the token %s, want %v and the token %s", err, ring.token(), away, token)
		}
	}
	away = nil
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = secretKey.Namespace, secretKey.Name
	must.Do(t, c.Delete(t.Context(), secret))
	refresh(t, ring)
	if ring.token() == token {
		t.Error("the Secret was deleted, and the token is the same")
	}
}

// Before the Secret was read, there is no certificate, and Certificate fails. Start makes the keyring ready.
func TestKeyring_HasNoCertificateBeforeItHasReadTheSecret(t *testing.T) {
	ring := newKeyring(newFake(), secretKey, "127.0.0.1", clocktesting.NewFakeClock(time.Now()))
	if leaf, err := ring.Certificate(); err == nil {
		t.Errorf("Certificate = %v, want an error", leaf)
	}
	select {
	case <-ring.ready:
		t.Error("the keyring is ready before it has read the Secret")
	default:
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- ring.Start(ctx) }()
	<-ring.ready
	stop()
	must.Do(t, <-done)
}

// A certificate is valid for its host, a name or an address, and for no other.
func TestAuthority_IssuesForNamesAndAddresses(t *testing.T) {
	a := must.Get(newAuthority(time.Now()))(t)
	for _, host := range []string{"ipam.example.org", "127.0.0.1", "2001:db8::1"} {
		leaf := must.Get(a.issue(host, time.Now()))(t)
		if err := leaf.Leaf.VerifyHostname(host); err != nil {
			t.Errorf("the certificate for %s: %v", host, err)
		}
		if err := leaf.Leaf.VerifyHostname("other.example.org"); err == nil || leaf.Leaf.IsCA {
			t.Errorf("the certificate for %s is good for another host, or to sign others", host)
		}
	}
}

// The files are read again each time, so a certificate that another program has renewed is used at once.
func TestFiles_AreReadAgainEachTime(t *testing.T) {
	dir := t.TempDir()
	files := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	if _, err := files.Certificate(); err == nil {
		t.Error("Certificate = nil before the files are there, want an error")
	}
	for range 2 {
		ca := must.Get(newAuthority(time.Now()))(t)
		cert, key, err := ca.encode()
		must.Do(t, err)
		for file, data := range map[string][]byte{files.Cert: cert, files.Key: key, files.CA: cert} {
			must.Do(t, os.WriteFile(file, data, 0o600))
		}
		served := must.Get(files.Certificate())(t)
		bundle := must.Get(files.Bundle())(t)
		if block, _ := pem.Decode(bundle); !served.Leaf.Equal(ca.cert) || string(block.Bytes) != string(ca.cert.Raw) {
			t.Error("the door serves or registers a certificate that was replaced")
		}
	}
	if bundle, err := (Files{Cert: files.Cert}).Bundle(); err != nil || len(bundle) != 0 {
		t.Errorf("without a CA file: Bundle = %q, %v; want none", bundle, err)
	}
}
