package main

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/kcp-ipam/ipam/controllers/door"
	"github.com/kcp-ipam/ipam/test/must"
)

// If no URL is given, kcp is told the port at which the webhooks listen.
func TestWebhooks_TellKCPTheirPort(t *testing.T) {
	for address, host := range map[string]string{":0": "127.0.0.1", "127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1"} {
		opts := must.Get((&webhookOptions{address: address}).listen(t.Context()))(t)
		_, port, err := net.SplitHostPort(opts.Listener.Addr().String())
		if err != nil {
			t.Fatalf("net.SplitHostPort: %v", err)
		}
		if want := "https://" + net.JoinHostPort(host, port); opts.Endpoint.URL != want {
			t.Errorf("at %s the URL is %s, want %s", address, opts.Endpoint.URL, want)
		}
		must.Do(t, opts.Listener.Close())
	}
	if opts, err := (&webhookOptions{address: nowhere}).listen(t.Context()); err != nil || opts.Listener != nil {
		t.Errorf("at %s: listen = %v, %v; want no listener", nowhere, opts.Listener, err)
	}
	missing := webhookOptions{address: "127.0.0.1:0", files: door.Files{Cert: filepath.Join(t.TempDir(), "none"), Key: "none"}}
	if _, err := missing.listen(t.Context()); err == nil || !strings.Contains(err.Error(), "--webhook-cert-file") {
		t.Errorf("with a certificate that is not there: listen = %v, want an error that names the flag", err)
	}
}

// The other replicas are told an address by which they reach this replica, with the port at which its webhooks listen.
func TestWebhooks_TellReplicasAReachableAddress(t *testing.T) {
	for _, tt := range []struct{ address, peer, want string }{
		{"127.0.0.1:0", "", "127.0.0.1"},
		{"[::1]:0", "", "::1"},
		{":0", "10.0.0.7", "10.0.0.7"},
		{":0", "fd00::7", "fd00::7"},
		{":0", "ipam-0.ipam", "ipam-0.ipam"},
	} {
		opts := must.Get((&webhookOptions{address: tt.address, peer: tt.peer}).listen(t.Context()))(t)
		if want := net.JoinHostPort(tt.want, strconv.Itoa(opts.Listener.Addr().(*net.TCPAddr).Port)); opts.Peer != want {
			t.Errorf("at %s with host %q the peers are told %s, want %s", tt.address, tt.peer, opts.Peer, want)
		}
		must.Do(t, opts.Listener.Close())
	}
	if ip := net.ParseIP(reachable(net.IPv4zero)); ip == nil || ip.IsUnspecified() || ip.IsLinkLocalUnicast() {
		t.Errorf("without a host the peers are told %s, want an address of this machine", ip)
	}
}

// Each replica tells the others the address of its pod, and the NetworkPolicy lets them reach the webhooks there.
func TestDeploy_LetsReplicasReachEachOther(t *testing.T) {
	container := workloadOf(t, "ha").pod.Spec.Containers[0]
	if !slices.Contains(container.Args, "--webhook-peer-host=$(POD_IP)") || !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool {
		return e.Name == "POD_IP" && e.ValueFrom.FieldRef.FieldPath == "status.podIP"
	}) {
		t.Errorf("the arguments are %q and the variables %v, want the peers to be told the address of the pod", container.Args, container.Env)
	}
	policy := one[*networkingv1.NetworkPolicy](t, overlaid(t, "ha"))
	if !slices.ContainsFunc(policy.Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return len(rule.To) == 1 && rule.To[0].PodSelector != nil && rule.Ports[0].Port.IntValue() == 9443 &&
			maps.Equal(rule.To[0].PodSelector.MatchLabels, policy.Spec.PodSelector.MatchLabels)
	}) {
		t.Error("the NetworkPolicy does not let a replica reach the webhooks of another")
	}
}

// In each overlay, the Service that the flags name leads to the port of the webhooks, and the NetworkPolicy lets kcp
// in.
func TestDeploy_LetsKCPReachTheWebhooks(t *testing.T) {
	for _, name := range overlays {
		t.Run(name, func(t *testing.T) {
			objects, w := overlaid(t, name), workloadOf(t, name)
			opts := parsed(t, w).webhooks
			endpoint := must.Get(opts.endpoint(&net.TCPAddr{}))(t)
			leads := slices.ContainsFunc(all[*corev1.Service](objects), func(s *corev1.Service) bool {
				named := endpoint.URL == "https://"+s.Name+"."+s.Namespace+".svc" ||
					endpoint.Service != nil && *endpoint.Service == door.Service{Namespace: s.Namespace, Name: s.Name, Port: 443}
				return named && s.Spec.Ports[0].Port == 443 && s.Spec.Ports[0].TargetPort.StrVal == "webhook"
			})
			if !leads {
				t.Errorf("no Service of the overlay is at %+v", endpoint)
			}
			port := corev1.ContainerPort{Name: "webhook", ContainerPort: 9443}
			if ports := w.pod.Spec.Containers[0].Ports; !slices.ContainsFunc(ports, func(p corev1.ContainerPort) bool {
				return p.Name == port.Name && p.ContainerPort == port.ContainerPort
			}) || !strings.HasSuffix(opts.address, ":9443") {
				t.Errorf("the ports are %+v and the webhooks listen at %s, want both to be 9443", ports, opts.address)
			}
			policy := one[*networkingv1.NetworkPolicy](t, objects)
			if !slices.ContainsFunc(policy.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool {
				return len(rule.From) == 0 && rule.Ports[0].Port.StrVal == port.Name
			}) {
				t.Error("the NetworkPolicy does not let kcp reach the webhooks")
			}
		})
	}
}
