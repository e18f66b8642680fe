// Command kubectl-ipam claims address space and looks after it, as the kubectl
// plugin "kubectl ipam". It speaks the Kubernetes API of the current workspace
// and nothing else.
//
// A package is a noun, and a file of it a verb: claim/create.go is kubectl ipam claim create. Data
// goes to stdout and words go to stderr; the exit code comes from the reason of the
// answer, never from its message.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second interrupt ends the program at once
	klog.SetLogger(logr.Discard()) // each failure is in an error
	log.SetLogger(logr.Discard())
	s := session.New(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	code := s.Execute(ctx, newRoot(s), os.Args[1:])
	stop()
	os.Exit(code)
}
