package tenant

import (
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/test/stage"
)

// The kubeconfig holds the CA itself, and the token of the controller.
func TestKubeconfigOf(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("the CA"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	got, err := kubeconfigOf(&rest.Config{
		Host: "https://kcp.example:6443/clusters/root:ipam", BearerToken: "the token", TLSClientConfig: rest.TLSClientConfig{CAFile: ca},
	})
	if err != nil {
		t.Fatal(err)
	}
	stage.Golden(t, "controller_kubeconfig", string(got))
}

// A file that others could read is replaced by one that they cannot.
func TestWritePrivate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := writePrivate(name, []byte("new")); err != nil {
		t.Fatalf("writePrivate: %v", err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has %v, %v; want mode 0600", info.Mode(), err)
	}
	if data, err := os.ReadFile(name); err != nil || string(data) != "new" {
		t.Errorf("the file holds %q, %v; want new", data, err)
	}
	if err := writePrivate(filepath.Join(name, "below"), nil); err == nil {
		t.Error("a file below a file was written")
	}
}
