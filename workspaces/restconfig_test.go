package workspaces

import (
	"testing"

	"k8s.io/client-go/rest"
)

func TestAt(t *testing.T) {
	t.Parallel()
	for _, host := range []string{
		"https://kcp.example:6443",
		"https://kcp.example:6443/",
		"https://kcp.example:6443/clusters/root",
		"https://kcp.example:6443/clusters/root:ipam",
	} {
		cfg := &rest.Config{Host: host, BearerToken: "secret"}
		got := At(cfg, "root:team-a")
		if want := "https://kcp.example:6443/clusters/root:team-a"; got.Host != want || got.BearerToken != "secret" {
			t.Errorf("At(%s) = %s; want %s with the same identity", host, got.Host, want)
		}
		if cfg.Host != host {
			t.Errorf("At(%s) has changed its argument to %s", host, cfg.Host)
		}
	}
}
