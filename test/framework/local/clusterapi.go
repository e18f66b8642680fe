package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/rest"
)

// ClusterAPIOptions say how ipam-controller capi runs. All fields but Flags are required.
type ClusterAPIOptions struct {
	// Binary is the ipam-controller.
	Binary string
	// Dir keeps the kubeconfigs and the log. It is made if missing.
	Dir string
	// Management is the access to the management cluster, and Workspace is the access to the workspace.
	Management, Workspace *rest.Config
	// Flags are further flags.
	Flags []string
}

// ClusterAPI is an ipam-controller capi.
type ClusterAPI struct {
	process
	health   string
	required []string // the arguments without the further flags
}

// NewClusterAPI returns an ipam-controller capi, which is not started yet.
func NewClusterAPI(ctx context.Context, opts ClusterAPIOptions) (*ClusterAPI, error) {
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, err
	}
	ports, _, err := steadyPorts(ctx, filepath.Join(opts.Dir, "ports"), 1)
	if err != nil {
		return nil, err
	}
	args := []string{opts.Binary, "capi", "--metrics-bind-address=0", "--health-probe-bind-address=" + address(ports[0])}
	for name, access := range map[string]*rest.Config{"capi-kubeconfig": opts.Management, "kubeconfig": opts.Workspace} {
		kubeconfig, err := Kubeconfig(access)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(opts.Dir, name)
		if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
			return nil, err
		}
		args = append(args, flag(name, file))
	}
	c := &ClusterAPI{
		health: "http://" + address(ports[0]), required: args,
		process: process{name: "ipam-controller capi", log: filepath.Join(opts.Dir, "controller.log")},
	}
	c.SetFlags(opts.Flags)
	return c, nil
}

// SetFlags replaces the further flags. The next start uses the new ones.
func (c *ClusterAPI) SetFlags(flags []string) { c.args = slices.Concat(c.required, flags) }

// Start starts the controller and returns when it is ready.
func (c *ClusterAPI) Start(ctx context.Context) error {
	if err := c.start(); err != nil {
		return err
	}
	return c.await(ctx, func(ctx context.Context) error {
		_, err := get(ctx, c.health+"/readyz")
		return err
	})
}

// Fail starts the controller, waits until it has ended with an error, and returns its output.
func (c *ClusterAPI) Fail(ctx context.Context) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, err := os.ReadFile(c.log)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := errors.Join(c.start(), c.AwaitEnd(ctx)); err != nil {
		return "", err
	}
	if c.err == nil {
		return "", fmt.Errorf("%s has ended without an error, see %s", c.name, c.log)
	}
	after, err := os.ReadFile(c.log)
	return string(after[min(len(before), len(after)):]), err
}
