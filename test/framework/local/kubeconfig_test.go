package local

import (
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kcp-ipam/ipam/test/must"
)

func TestKubeconfig_ReadsBack(t *testing.T) {
	t.Parallel()
	want := &rest.Config{Host: "https://kcp.example:6443/clusters/root:ipam", BearerToken: "secret"}
	want.CAData = []byte("a certificate")
	file := must.Get(Kubeconfig(want))(t)
	got := must.Get(clientcmd.RESTConfigFromKubeConfig(file))(t)
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
