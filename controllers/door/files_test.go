package door

import (
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Files are read again, so that a certificate that somebody else renews counts at once.
func TestFiles_AreReplaced(t *testing.T) {
	dir := t.TempDir()
	files := Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key"), CA: filepath.Join(dir, "ca.crt")}
	if _, err := files.Certificate(); err == nil {
		t.Error("Certificate = nil before the files are there, want an error")
	}
	for range 2 {
		ca, err := newAuthority(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := ca.encode()
		if err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{files.Cert: cert, files.Key: key, files.CA: cert} {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		served, err := files.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := files.Bundle()
		if err != nil {
			t.Fatal(err)
		}
		if block, _ := pem.Decode(bundle); !served.Leaf.Equal(ca.cert) || string(block.Bytes) != string(ca.cert.Raw) {
			t.Error("the door serves or registers a certificate that was replaced")
		}
	}
	if bundle, err := (Files{Cert: files.Cert}).Bundle(); err != nil || len(bundle) != 0 {
		t.Errorf("without a CA file: Bundle = %q, %v; want none", bundle, err)
	}
}
