// Command bench measures. Each subcommand has flags of its own, writes a section of a page with
// --out, and otherwise writes to stdout:
//
//	bench fleet      workspaces and claims beyond what kcp carries, on a stand-in
//	bench kcp        claims through a real kcp, beside a bare controller
//	bench ledger     the allocator alone, beside raw etcd and go-ipam
//	bench replicas   several controllers, and the loss of the leader
//	bench bare       the bare controller, which kcp starts
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/kcp-ipam/ipam/test/bench/bare"
	"github.com/kcp-ipam/ipam/test/bench/fleet"
	"github.com/kcp-ipam/ipam/test/bench/harness"
	"github.com/kcp-ipam/ipam/test/bench/kcp"
	"github.com/kcp-ipam/ipam/test/bench/ledger"
	"github.com/kcp-ipam/ipam/test/bench/replicas"
)

var benchmarks = map[string]func(context.Context, []string, harness.Say) error{
	"fleet":    fleet.Run,
	"kcp":      kcp.Run,
	"ledger":   ledger.Run,
	"replicas": replicas.Run,
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" { // it has a log of its own
		serve(os.Args[2:])
		return
	}
	harness.Main("bench", run)
}

func run(ctx context.Context, args []string, say harness.Say) error {
	if len(args) == 0 || benchmarks[args[0]] == nil {
		return fmt.Errorf("%q is no benchmark; write fleet, kcp, ledger or replicas, and then its flags", args)
	}
	err := benchmarks[args[0]](ctx, args[1:], say)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	return err
}

func serve(args []string) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bare.Run(ctx, args); err != nil {
		fmt.Fprintln(os.Stderr, "bare:", err)
		os.Exit(1) //nolint:gocritic // the signal handler dies with the process
	}
}
