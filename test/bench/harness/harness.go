// Package harness is what the programs that measure have in common: they end on a
// signal, tell how far they have come, stand on a kcp of their own, and publish what
// they have found.
package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/test/bench/page"
)

// Say tells how far a program has come. It is safe for concurrent use.
type Say func(format string, args ...any)

// Main is the main function of a program of that name. What run is told to say goes to
// stderr, with the seconds since the beginning. The first signal cancels ctx. An error
// ends the program with 1.
func Main(name string, run func(ctx context.Context, args []string, say Say) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal ends the program at once
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	if err := run(ctx, os.Args[1:], say); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// Publish writes text to its section of a page, or to stdout if file is empty.
func Publish(file, section, text string) error {
	if file == "" {
		_, err := io.WriteString(os.Stdout, text)
		return err
	}
	return page.Write(file, section, text)
}
