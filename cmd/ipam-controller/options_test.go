package main

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/must"
)

// given parses a command line.
func given(t *testing.T, args ...string) *options {
	t.Helper()
	o, flags := defaults(), pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	must.Do(t, flags.Parse(args))
	if flags.NArg() > 0 {
		t.Fatalf("%q are no flags", flags.Args())
	}
	return o
}

// A command line that cannot work is refused. The error says what to write instead.
func TestValidate_SaysWhatToWriteInstead(t *testing.T) {
	for line, want := range map[string]string{ // the error by command line; empty: it is valid
		"": "",
		// If a variable in a template is not set, this does not begin a new ledger in an embedded etcd.
		"--etcd-servers=": "--etcd-servers is empty",

		"--capi":                            "--capi goes with --standalone",
		"--capi --standalone":               "",
		"--tenants=namespaces":              "--tenants=namespaces goes with --standalone",
		"--tenants=teams":                   `--tenants is "teams"; give it cluster or namespaces`,
		"--standalone --tenants=namespaces": "",
		"--standalone --tenants=cluster":    "",
		"--watch-filter=edge":               "--namespace and --watch-filter go with --capi",

		"--default-unmet-policy=Wait":   "",
		"--default-unmet-policy=Refuse": "",
		"--default-unmet-policy=":       "give it Wait or Refuse",
		"--default-unmet-policy=refuse": "give it Wait or Refuse",

		"--sweep-max-frees=-1":  "--sweep-max-frees is ",
		"--sweep-max-share=NaN": "--sweep-max-share is ",
		"--sweep-max-share=1.1": "--sweep-max-share is ",
		"--sweep-interval=0":    "--sweep-interval is ",
		"--orphan-min-age=0":    "--orphan-min-age is ",
		"--orphan-min-age=-1h":  "--orphan-min-age is ",

		"--trace-ratio=NaN":                     "--trace-ratio is ",
		"--trace-ratio=-0.1":                    "--trace-ratio is ",
		"--trace-ratio=1.1":                     "--trace-ratio is ",
		"--otlp-endpoint=localhost:4317":        "--otlp-endpoint is ",
		"--otlp-endpoint=grpc://localhost:4317": "--otlp-endpoint is ",
		"--otlp-endpoint=http://":               "--otlp-endpoint is ",
		"--otlp-endpoint=%":                     "--otlp-endpoint is ",

		"--metrics-certfile=a.crt":       "--metrics-certfile and --metrics-keyfile go together",
		"--metrics-keyfile=a.key":        "--metrics-certfile and --metrics-keyfile go together",
		"--metrics-client-cafile=ca.crt": "--metrics-client-cafile needs --metrics-certfile",

		"--leader-elect-lease-duration=2500ms":                              "give it whole seconds",
		"--leader-elect-lease-duration=3s --leader-elect-renew-deadline=3s": "more than --leader-elect-renew-deadline",
		"--leader-elect-renew-deadline=1s --leader-elect-retry-period=1s":   "more than 1.2 times --leader-elect-retry-period",
		"--leader-elect-retry-period=0":                                     "more than 1.2 times --leader-elect-retry-period",

		"--webhook-url=https://ipam.example.org:9443":                "",
		"--webhook-url=https://a/b/":                                 "",
		"--webhook-url=http://ipam.example.org":                      `--webhook-url is "http://ipam.example.org"; write https://`,
		"--webhook-url=ipam.example.org":                             "write https://HOST:PORT",
		"--webhook-url=https://a/?b":                                 "nothing else",
		"--standalone --webhook-service=a/b":                         "",
		"--standalone --webhook-service=b":                           "write NAMESPACE/NAME",
		"--webhook-service=a/b":                                      "kcp has no Services",
		"--standalone --webhook-service=a/b --webhook-url=https://a": "not both",
		"--webhook-cert-file=c --webhook-key-file=k":                 "",
		"--webhook-cert-file=c":                                      "go together",
		"--webhook-ca-file=c":                                        "goes with --webhook-cert-file",
		"--webhook-peer-host=10.0.0.7":                               "",
		"--webhook-peer-host=fd00::7":                                "",
		"--webhook-peer-host=ipam-0.ipam":                            "",
		"--webhook-peer-host=ipam-0:9443":                            "without a port",
		"--webhook-peer-host=https://ipam-0":                         `--webhook-peer-host is "https://ipam-0"; write a name`,
	} {
		err := given(t, strings.Fields(line)...).validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: validate = %v, want an error that says %q", line, err, want)
		}
	}
}

// One error names all faults of a command line.
func TestValidate_NamesAllFaults(t *testing.T) {
	err := given(t, strings.Fields(`--capi --workers=0 --max-pools-per-workspace=-1 --max-waits-per-workspace=-1 --etcd-max-txn-ops=1
		--verify-interval=0 --history-max-records=-1 --etcd-prefix=ipam --etcd-listen-client-url=http://0.0.0.0:2379 --etcd-certfile=tls.crt
		--leader-elect --metrics-client-cafile=ca.crt --webhook-ca-file=ca.crt --webhook-peer-host=host:9443 --webhook-service=ns/name`)...).validate()
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

// The other commands refuse a wrong command line, too, with the exit code for wrong usage.
func TestCommands_RefuseWrongUsage(t *testing.T) {
	for _, tt := range []struct {
		line string
		code int
		want string
	}{
		{"history", exitUsage, "name an address or a prefix"},
		{"history 10.0.0", exitUsage, "neither an address nor"},
		{"history 10.0.0.7/24", exitUsage, "write 10.0.0.0/24"},
		{"history 10.0.0.7 --at yesterday", exitUsage, "such as 2026-03-01T14:05:00Z"},
		{"history 10.0.0.7 --since -1h", exitUsage, "how long ago"},
		{"history 10.0.0.7 -o yaml", exitUsage, "give it one of table, json"},
		{"history 10.0.0.7 10.0.0.8", exitUsage, "at most 1 arg"},
		{"history --follow", exitUsage, "give it -o json"},
		{"history 10.0.0.7 --from-revision 5", exitUsage, "give --follow, too"},
		{"history --follow -o json --from-revision -1", exitUsage, "the revision after the last"},
		{"history 10.0.0.7 --follow -o json", exitUsage, "select from its lines"},
		{"history --follow -o json --limit 5", exitUsage, "leave --limit out"},
		{"backup never.db --etcd-listen-client-url=", 1, "--etcd-listen-client-url and --etcd-servers are empty"},
		{"backup never.db --etcd-servers=", 1, "--etcd-listen-client-url and --etcd-servers are empty"},
		{"capi", 1, "give --kubeconfig, of the workspace"},
		{"capi --kubeconfig=workspace.kubeconfig --claim-namespace=", 1, "--claim-namespace is"},
		{"capi --kubeconfig=workspace.kubeconfig --leader-elect-lease-duration=0", 1, "--leader-elect-lease-duration is"},
	} {
		_, _, err := command(t.Context(), strings.Fields(tt.line)...)
		if err == nil || exitCode(err) != tt.code || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: exit code %d, %v; want %d and %q", tt.line, exitCode(err), err, tt.code, tt.want)
		}
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
