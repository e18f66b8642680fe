package local

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfig_ReadsBack(t *testing.T) {
	t.Parallel()
	want := &rest.Config{Host: "https://kcp.example:6443/clusters/root:ipam", BearerToken: "secret"}
	want.CAData = []byte("a certificate")
	file, err := Kubeconfig(want)
	if err != nil {
		t.Fatalf("Kubeconfig: %v", err)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(file)
	if err != nil {
		t.Fatalf("RESTConfigFromKubeConfig: %v", err)
	}
	if got.Host != want.Host || got.BearerToken != want.BearerToken || string(got.CAData) != string(want.CAData) {
		t.Errorf("read back: %s, CA %q; want %s, CA %q and the token", got.Host, got.CAData, want.Host, want.CAData)
	}
}

func TestKubeconfig_RefusesOtherIdentities(t *testing.T) {
	t.Parallel()
	if _, err := Kubeconfig(&rest.Config{Host: "https://kcp.example:6443", Username: "jane", Password: "secret"}); err == nil {
		t.Error("Kubeconfig has dropped a password without a word")
	}
}
