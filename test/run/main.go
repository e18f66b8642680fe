// Command run brings up everything on this machine, for people to look at and for
// tests: a kcp, the platform workspace, two tenants, the controller, and a claim of
// each tenant. With --standalone it is a cluster without kcp, and the tenants are
// namespaces. What it makes is kept in .run/, or .run-standalone/, and taken up by the next run.
//
//	run [--standalone] [--once] [--dir folder]
//
// It stays up until Ctrl-C, and then stops what it has started. With --once it
// stops as soon as the claims of the samples are bound, and fails if they are not. With
// --dir it keeps what it makes there.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kcp-ipam/ipam/test/framework/local"
)

func main() {
	once := flag.Bool("once", false, "stop as soon as the claims of the samples are bound")
	standalone := flag.Bool("standalone", false, "run a cluster without kcp, whose namespaces are the tenants")
	dir := flag.String("dir", "", "folder to keep everything in (default .run of the repository, or .run-standalone)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the program at once, and with it what it has started.
	context.AfterFunc(ctx, stop)

	r := &run{out: os.Stdout, began: time.Now(), once: *once, standalone: *standalone, dir: *dir}
	if err := r.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

// run is one run of the program.
type run struct {
	out   io.Writer
	began time.Time
	once  bool

	standalone bool
	dir        string // empty: .run of the repository, or .run-standalone

	stage      stage             // nil until it is made
	controller *local.Controller // nil until it is made
}

// say tells what is being done, and since when the program runs.
func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}
