package local

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
)

// ledger is the folder of the embedded etcd.
const ledger = "etcd"

// ControllerOptions say how a controller runs.
type ControllerOptions struct {
	// Binary is the ipam-controller. Required.
	Binary string
	// Command is the subcommand of Binary that is the controller. Default: none.
	Command string
	// Dir keeps the kubeconfig, the embedded etcd and the log. It is made if missing. Required.
	Dir string
	// Workspace is the path of the platform workspace. Default: none, for a cluster without kcp.
	Workspace string
	// Identity is the access of the controller to the platform workspace, or to that cluster. Required.
	Identity *rest.Config
	// Flags are further flags of the controller.
	Flags []string
	// Profiles makes the controller serve profiles. Default: it serves none.
	Profiles bool
}

// Controller is an ipam-controller with its own etcd inside.
type Controller struct {
	process
	place           []string // the flags that say where kcp and the ledger are
	dir             string
	health, metrics string
	profiles        string
	webhooks        string
}

// NewController returns a controller over the data in its folder. It is not started yet.
func NewController(ctx context.Context, opts ControllerOptions) (*Controller, error) {
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, err
	}
	ports, _, err := steadyPorts(ctx, filepath.Join(opts.Dir, "ports"), 4)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := Kubeconfig(opts.Identity)
	if err != nil {
		return nil, err
	}
	kubeconfigFile := filepath.Join(opts.Dir, "kubeconfig")
	if err := os.WriteFile(kubeconfigFile, kubeconfig, 0o600); err != nil {
		return nil, err
	}
	where := "--workspace=" + opts.Workspace
	if opts.Workspace == "" {
		where = "--standalone"
	}
	place := []string{"--kubeconfig=" + kubeconfigFile, where, "--etcd-data-dir=" + filepath.Join(opts.Dir, ledger)}
	program := []string{opts.Binary}
	if opts.Command != "" {
		program = append(program, opts.Command)
	}
	args := slices.Concat(program, place, []string{
		"--health-probe-bind-address=" + address(ports[0]),
		"--metrics-bind-address=" + address(ports[1]),
		"--webhook-bind-address=" + address(ports[3]),
	}, opts.Flags)
	if opts.Profiles {
		args = append(args, "--pprof-bind-address="+address(ports[2]))
	}
	return &Controller{
		place:    place,
		dir:      opts.Dir,
		health:   "http://" + address(ports[0]),
		metrics:  "http://" + address(ports[1]) + "/metrics",
		profiles: "http://" + address(ports[2]) + "/debug/pprof/",
		webhooks: "https://" + address(ports[3]),
		process: process{
			name: "ipam-controller",
			log:  filepath.Join(opts.Dir, "controller.log"),
			args: args,
		},
	}, nil
}

// WebhookAddress returns the host and port at which this controller answers CREATE.
func (c *Controller) WebhookAddress() string { return strings.TrimPrefix(c.webhooks, "https://") }

// Start starts the controller and returns when it is ready.
func (c *Controller) Start(ctx context.Context) error { return c.startUntil(ctx, "/readyz") }

// Launch starts the controller and returns when it lives. It may never become ready, as while its only shard is away.
func (c *Controller) Launch(ctx context.Context) error { return c.startUntil(ctx, "/healthz") }

func (c *Controller) startUntil(ctx context.Context, probe string) error {
	if err := c.start(); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) error {
		_, err := get(ctx, c.health+probe)
		return err
	})
}

// Leads reports whether the controller holds the lease of its replicas. A paused controller does not answer, so give
// ctx a deadline.
func (c *Controller) Leads(ctx context.Context) (bool, error) {
	text, err := c.Metrics(ctx)
	return leads.MatchString(text), err
}

// leads matches the metric of the replica that holds the lease.
var leads = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 1$`)

// Webhooks returns the URL at which kcp reaches the controller's webhooks.
func (c *Controller) Webhooks() string { return c.webhooks }

// LedgerDir returns the folder of the etcd inside.
func (c *Controller) LedgerDir() string { return filepath.Join(c.dir, ledger) }

// Command returns another command of the controller's program, on the same workspace and data directory.
func (c *Controller) Command(ctx context.Context, name string, flags ...string) *exec.Cmd {
	return exec.CommandContext(ctx, c.args[0], slices.Concat([]string{name}, c.place, flags)...)
}

// Probe returns an error if the controller answers a probe, like "/readyz", with anything but 200.
func (c *Controller) Probe(ctx context.Context, path string) error {
	_, err := get(ctx, c.health+path)
	return err
}

// Metrics returns the controller's metrics in the text format of Prometheus.
func (c *Controller) Metrics(ctx context.Context) (string, error) {
	return get(ctx, c.metrics)
}

// Profile returns a profile of the controller, which must serve them, like
// "heap?gc=1&debug=1".
func (c *Controller) Profile(ctx context.Context, name string) (string, error) {
	return get(ctx, c.profiles+name)
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // The body was read.
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s: %s", url, response.Status, body)
	}
	return string(body), nil
}
