package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/kcp-ipam/ipam/test/framework/silent"
	"github.com/kcp-ipam/ipam/test/must"
)

// asking are the flags that name a server. A command with none of these flags asks no server.
var asking = []string{"kubeconfig", "capi-kubeconfig", "etcd-servers"}

// If a server is down, hangs, or never ends its answer, a command that asks etcd, kcp or a cluster ends within its
// --timeout, says why, and leaves no files. A command that serves for ever ends so, too, as long as it has not begun to
// serve.
func TestCommands_EndWithoutAServer(t *testing.T) {
	asked := 0
	for name, server := range silent.Servers(t) {
		dir := t.TempDir()
		kubeconfig := filepath.Join(dir, "kubeconfig")
		write(t, kubeconfig, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, clusters: [{name: x, cluster: {server: %q}}],
			contexts: [{name: x, context: {cluster: x}}]}`, server))
		values := map[string]string{"kubeconfig": kubeconfig, "capi-kubeconfig": kubeconfig, "etcd-servers": server}
		root := newCommand()
		for _, cmd := range append(root.Commands(), root) {
			args := argumentsOf(cmd, dir)
			for _, flag := range asking {
				if cmd.Flags().Lookup(flag) != nil {
					args = append(args, "--"+flag, values[flag])
				}
			}
			if len(args) == len(argumentsOf(cmd, dir)) {
				continue
			}
			asked++
			t.Run(cmd.Name()+"/"+name, func(t *testing.T) { endsSoon(t, append(args, "--timeout", "1s"), dir) })
		}
	}
	if asked < 3*5 {
		t.Errorf("%d commands were tried; want backup, verify, history, capi and the controller with each server", asked)
	}
}

// The commands that ask a controller on this machine do not wait for one that hangs.
func TestCommands_EndWithoutAController(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "verify.sock")
	hangs := must.Get((&net.ListenConfig{}).Listen(t.Context(), "unix", socket))(t)
	defer hangs.Close()
	for _, cmd := range newCommand().Commands() {
		if cmd.Flags().Lookup("verify-socket") != nil {
			t.Run(cmd.Name(), func(t *testing.T) {
				endsSoon(t, append(argumentsOf(cmd, dir), "--verify-socket", socket, "--timeout", "1s"), dir)
			})
		}
	}
}

// argumentsOf returns the arguments that call a command. If its usage has a file, that is a file in dir. A command that
// needs other arguments ends with a usage error, which fails the test.
func argumentsOf(cmd *cobra.Command, dir string) []string {
	var args []string
	if cmd.HasParent() {
		args = append(args, cmd.Name())
	}
	switch _, takes, _ := strings.Cut(cmd.Use, " "); takes {
	case "FILE":
		args = append(args, filepath.Join(dir, "file.db"))
	case "[ADDRESS | PREFIX]":
		args = append(args, "10.0.0.1")
	}
	return args
}

// endsSoon fails the test unless a command line soon ends with an error, and leaves no new file in dir.
func endsSoon(t *testing.T, args []string, dir string) {
	t.Helper()
	before, begun := len(must.Get(os.ReadDir(dir))(t)), time.Now()
	const patience = 20 * time.Second // on a busy machine
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, says, err := command(ctx, args...)
	if took := time.Since(begun); took >= patience {
		t.Errorf("%v took %s; want it to end soon after --timeout", args, took)
	}
	if err == nil || exitCode(err) == 0 || exitCode(err) == exitUsage {
		t.Errorf("%v ended with %v; want an error of the server\n%s%s", args, err, out, says)
	}
	if left := must.Get(os.ReadDir(dir))(t); len(left) != before {
		t.Errorf("%v leaves %v; want nothing new", args, left)
	}
}
