package main

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/must"
)

// A command line that cannot work is refused with what to write instead, all of it at once. The defaults work.
func TestValidate_NamesAllThatCannotWork(t *testing.T) {
	o := defaults()
	must.Do(t, o.validate())
	o.capi, o.workers, o.maxPools, o.maxWaits, o.etcdTxnOps, o.verify.Interval, o.historyMax = true, 0, -1, -1, 1, 0, -1
	o.etcdPrefix, o.etcdListen, o.etcdCertFile, o.election.on = "ipam", "http://0.0.0.0:2379", "tls.crt", true
	o.metricsClientCAFile, o.webhooks.files.CA, o.webhooks.peer, o.webhooks.service = "ca.crt", "ca.crt", "host:9443", "ns/name"
	err := o.validate()
	if err == nil {
		t.Fatal("nothing is refused")
	}
	for _, flag := range []string{
		"--capi goes", "--workers", "--max-pools", "--max-waits", "--etcd-max-txn-ops", "--verify-interval", "--history-max-records", "--etcd-prefix",
		"--etcd-listen-client-url is", "go with --etcd-servers", "--etcd-certfile and --etcd-keyfile go together", "--leader-elect needs",
		"--metrics-client-cafile", "--webhook-ca-file", "--webhook-peer-host", "--webhook-service goes",
	} {
		if !strings.Contains(err.Error(), flag) {
			t.Errorf("validate says nothing of %q:\n%v", flag, err)
		}
	}
}

// A variable that is not set in a template begins no new ledger in an embedded etcd.
func TestValidate_NoServersAreNotTheEmbeddedOne(t *testing.T) {
	o, flags := defaults(), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addServersFlags(flags)
	must.Do(t, flags.Parse([]string{"--etcd-servers="}))
	if err := o.validate(); err == nil || !strings.Contains(err.Error(), "--etcd-servers is empty") {
		t.Errorf("--etcd-servers=: %v, want that it is empty", err)
	}
}

// The embedded etcd has no authentication, so it listens on addresses of this machine only.
func FuzzLocalURL(f *testing.F) {
	for _, text := range []string{
		"unix:///run/ipam/etcd.sock", "unix://", "http://127.0.0.1:2379", "http://[::1]:2379", "http://0.0.0.0:2379", "https://127.0.0.1:2379",
		"http://localhost:2379", "http://127.0.0.1.evil:2379", "http://user@10.0.0.1:2379", "http://[::ffff:10.0.0.1]:2379", "//127.0.0.1:1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if !localURL(text) {
			return
		}
		if err != nil || u.Scheme != "unix" && u.Scheme != "http" {
			t.Fatalf("%q is no URL of this machine", text)
		}
		if u.Scheme == "unix" {
			return
		}
		if at, err := netip.ParseAddrPort(u.Host); err != nil || !at.Addr().IsLoopback() {
			t.Errorf("%q reaches beyond this machine", text)
		}
	})
}

// The controller starts with each word of unmetPolicy, and says which they are.
func TestOptions_DefaultUnmetPolicy(t *testing.T) {
	for word, want := range map[string]string{"Wait": "", "Refuse": "", "": "give it Wait or Refuse", "refuse": "give it Wait or Refuse"} {
		opts := defaults()
		opts.unmet = word
		err := opts.validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("--default-unmet-policy=%s: %v, want %q", word, err, want)
		}
	}
}
