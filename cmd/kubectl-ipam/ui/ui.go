// Package ui has the command kubectl ipam ui, which serves the pages of package page.
package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/page"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/session"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// command is kubectl ipam ui.
type command struct {
	*session.Session
	port int
	open bool
}

// New makes kubectl ipam ui.
func New(s *session.Session) *cobra.Command {
	o := &command{Session: s}
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Serve pages with maps of the pools to your browser",
		Long: `Serve pages to your browser: pools as maps and lists, the holder of each block, the claims
that wait, and the block that a claim would get. The pages show what you may see in the
current workspace, and change nothing.

The command is the server. It listens on 127.0.0.1, prints an address with a token that
admits your browser, and serves until you stop it.`,
		Example: `  # serve the pages, and open them in your browser
  kubectl ipam ui --open`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	cmd.Flags().IntVar(&o.port, "port", 0, "Port of 127.0.0.1 to listen on; 0 takes a free one")
	cmd.Flags().BoolVar(&o.open, "open", false, "Open the pages in your browser")
	return cmd
}

func (o *command) run(ctx context.Context) error {
	if o.port < 0 || o.port > 65535 {
		return exit.Usagef("--port is %d; write a number up to 65535, or 0", o.port)
	}
	source := pageSource{o.Session}
	first, err := source.Read(ctx)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)))
	if err != nil {
		return exit.Fail(exit.Unavailable, "--port 0 takes a free one", "listen: %w", err)
	}
	options := page.Options{
		Source: source, Host: listener.Addr().String(), Token: page.NewToken(), Root: page.NewToken(), Now: o.Now,
	}
	server := &http.Server{Handler: page.New(options), ReadHeaderTimeout: 10 * time.Second}
	address := fmt.Sprintf("http://%s/%s/?token=%s", options.Host, options.Root, options.Token)
	screen.Line(o.Out, "%s", address)
	o.Say("serving what you may see in %s; Ctrl-C stops it", cmp.Or(first.Workspace, "this cluster"))
	if o.open {
		o.browse(ctx, address)
	}
	return serve(ctx, server, listener)
}

// serve serves until the context ends. It does not wait for requests at the end, because they only read.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return exit.Fail(exit.Error, "", "serve: %w", err)
	}
	return nil
}

// browse opens an address in the user's browser. If this fails, the user can still open it.
func (o *command) browse(ctx context.Context, address string) {
	words := map[string][]string{"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"}}[runtime.GOOS]
	if words == nil {
		words = []string{"xdg-open"}
	}
	browser := exec.CommandContext(ctx, words[0], append(words[1:], address)...)
	if err := browser.Start(); err != nil {
		o.Say("no browser was opened: %v", err)
		return
	}
	go func() { _ = browser.Wait() }() // it ends with the browser, or with the context
}

// pageSource reads the data of the pages in the same way as the commands do.
type pageSource struct{ *session.Session }

// Read implements [page.Source]. It leaves out kinds that the caller may not read. If the caller may read none, it
// returns an error.
func (s pageSource) Read(ctx context.Context) (*page.Snapshot, error) {
	r, err := s.View(ctx)
	if err != nil {
		return nil, err
	}
	pools, noPools := r.Pools(ctx)
	allocations, noAllocations := r.Allocations(ctx)
	claims, noClaims := r.Claims(ctx)
	classes := &ipamv1alpha1.IPClassList{}
	noClasses := r.List(ctx, classes)
	failures := []error{noPools, noAllocations, noClaims, noClasses}
	if at := slices.IndexFunc(failures, func(err error) bool { return exit.IgnoreUnseen(err) != nil }); at >= 0 {
		return nil, failures[at]
	}
	if !slices.Contains(failures, nil) {
		return nil, noPools
	}
	slices.SortFunc(classes.Items, func(a, b ipamv1alpha1.IPClass) int { return cmp.Compare(a.Name, b.Name) })
	snapshot := &page.Snapshot{
		Workspace: r.Path, Namespace: r.Namespace, Tenants: r.SeesTenants, Classes: classes.Items,
	}
	for _, pool := range r.Visible(pools, allocations) {
		snapshot.Pools = append(snapshot.Pools, page.Pool{Pool: *pool})
	}
	for i := range claims {
		snapshot.Claims = append(snapshot.Claims, page.Claim{IPClaim: &claims[i], Workspace: r.Workspace(&claims[i])})
	}
	return snapshot, nil
}

// Preview implements [page.Source].
func (s pageSource) Preview(ctx context.Context, claim *ipamv1alpha1.IPClaim) error {
	c, err := s.Here()
	if err != nil {
		return err
	}
	return c.Create(ctx, claim, client.DryRunAll)
}

// History implements [page.Source].
func (s pageSource) History(ctx context.Context, q lookup.Query) (lookup.Answer, error) {
	here, err := s.Here()
	if err != nil {
		return lookup.Answer{}, err
	}
	answer, err := here.History(ctx, "", q)
	if code := exit.CodeOf(err); code == exit.Forbidden || code == exit.NotFound {
		err = errors.New("it is shown in the workspace of the platform, to users with a token and the role " + lookup.Role +
			", if the controller is on the host of the kubeconfig's server; else ask by kubectl ipam history")
	}
	return answer, err
}
