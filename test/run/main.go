// Command run brings up everything on this machine, for people and for tests: a kcp, the platform workspace, two
// tenants, the controller, and a claim of each tenant. With --standalone it brings up a cluster without kcp, where
// the tenants are namespaces. It keeps its data in .run/, or .run-standalone/, and the next run uses them.
//
//	run [--standalone] [--once] [--dir folder]
//
// It stays up until Ctrl-C, and then stops what it has started. With --once it stops as soon as the claims of the
// samples are bound, and fails if they are not. With --dir it keeps its data in that folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

func main() {
	once := flag.Bool("once", false, "stop as soon as the claims of the samples are bound")
	standalone := flag.Bool("standalone", false, "run a cluster without kcp, whose namespaces are the tenants")
	dir := flag.String("dir", "", "folder to keep everything in (default .run of the repository, or .run-standalone)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The second signal ends the program at once, and all that it has started.
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

// say prints a step, and for how long the program has run.
func (r *run) say(format string, args ...any) {
	fmt.Fprintf(r.out, "%6.1fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// lock keeps a second run away from the data of this run. The system releases the lock when the program ends, however
// it ends.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another run holds %s: stop it first: %w", file, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// kubeconfigName is the file that writeKubeconfig writes, in the folder of the run.
const kubeconfigName = "admin.kubeconfig"

// writeKubeconfig writes a kubeconfig of kcp's admin with a context for each
// workspace, named by the last part of its path.
func (onKCP) writeKubeconfig(_ context.Context, file string, admin *rest.Config) error {
	const user = "kcp-admin"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: admin.BearerToken}
	for _, workspace := range append([]string{"root", workspaces.DefaultWorkspace}, tenantWorkspaces...) {
		name := contextOf(workspace)
		kubeconfig.Clusters[name] = &clientcmdapi.Cluster{
			Server:                   workspaces.At(admin, workspace).Host,
			CertificateAuthorityData: admin.CAData,
		}
		kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	}
	kubeconfig.CurrentContext = contextOf(workspaces.DefaultWorkspace)
	return clientcmd.WriteToFile(*kubeconfig, file)
}

func contextOf(workspace string) string {
	return workspace[strings.LastIndex(workspace, ":")+1:]
}
