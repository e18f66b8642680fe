package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/workspaces"
)

// session is one run of the program: its streams, its access to a server, and its clock.
type session struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	// now is the clock of ages.
	now func() time.Time
	// out and err colour what goes to stdout and to stderr.
	out, err paint
	// terminal is stderr if it is a terminal, for the spinner; nil otherwise.
	terminal io.Writer
	// width is that of a line, as COLUMNS says; 0 if it does not.
	width int
	// asks is whether somebody is there to answer a question.
	asks bool
	// written remembers what went wrong with stdout.
	written *recorder
	// started is set once a command does its work: what fails before is wrong usage.
	started bool
}

func newSession(streams genericiooptions.IOStreams) *session {
	s := &session{
		flags: genericclioptions.NewConfigFlags(true),
		now:   time.Now,
		out:   paintFor(streams.Out, os.Getenv),
		err:   paintFor(streams.ErrOut, os.Getenv),
		asks:  isTerminal(streams.In),
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil {
		s.width = width
	}
	s.written = &recorder{Writer: streams.Out}
	s.IOStreams = genericiooptions.IOStreams{
		In: streams.In, Out: screen{s.written, &s.out, isTerminal(streams.Out)}, ErrOut: screen{streams.ErrOut, &s.err, isTerminal(streams.ErrOut)},
	}
	if isTerminal(streams.ErrOut) {
		s.terminal = streams.ErrOut
	}
	s.flags.WrapConfigFn = func(cfg *rest.Config) *rest.Config {
		cfg.QPS = -1 // the server says when to slow down
		cfg.WarningHandler = rest.NewWarningWriter(s.ErrOut, rest.WarningWriterOptions{Deduplicate: true, Color: bool(s.err)})
		return cfg
	}
	return s
}

// execute runs one command line and returns the exit code.
func (s *session) execute(ctx context.Context, args []string) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && s.written.err != nil {
		err = fail(exitError, "", "write to stdout: %w", s.written.err)
	}
	if err == nil {
		return exitOK
	}
	if !s.started && s.written.err == nil {
		err = &failure{code: exitUsage, err: err, hint: fmt.Sprintf("%s --help shows how it is used", cmd.CommandPath())}
	}
	s.report(err)
	return exitCode(err)
}

// say writes a line to stderr.
func (s *session) say(format string, args ...any) {
	printLine(s.ErrOut, format, args...)
}

// report writes an error to stderr, and what to do about it.
func (s *session) report(err error) {
	for _, one := range joined(err) {
		printLine(s.ErrOut, "%s %s", s.err.red("error:"), explain(one))
	}
	if hints := hintOf(err); hints != "" {
		for hint := range strings.SplitSeq(hints, "\n") {
			printLine(s.ErrOut, "%s %s", s.err.dim("hint:"), hint)
		}
	}
}

// config is the access that kubeconfig and flags describe.
func (s *session) config() (*rest.Config, error) { return s.flags.ToRESTConfig() }

// namespace is the current one, or that of --namespace.
func (s *session) namespace() (string, error) {
	namespace, _, err := s.flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// client speaks to the current workspace. It reads live.
func (s *session) client() (client.WithWatch, error) {
	cfg, err := s.config()
	if err != nil {
		return nil, err
	}
	return newClient(cfg)
}

// here is the access to the current workspace, and the current namespace in it.
func (s *session) here() (c client.WithWatch, namespace string, err error) {
	if namespace, err = s.namespace(); err != nil {
		return nil, "", err
	}
	c, err = s.client()
	return c, namespace, err
}

// newClient knows where its kinds are served, and sends no request.
func newClient(cfg *rest.Config) (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"IPClass", "IPPool"} {
		mapper.Add(ipamv1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	for _, kind := range []string{"IPClaim", "IPAllocation"} {
		mapper.Add(ipamv1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(capiv1.GroupVersion.WithKind("IPAddressClaim"), meta.RESTScopeNamespace)
	mapper.Add(clusterv1.GroupVersion.WithKind("Cluster"), meta.RESTScopeNamespace)
	for _, kind := range []schema.GroupVersionKind{
		apisv1alpha1.SchemeGroupVersion.WithKind("APIExportEndpointSlice"),
		apisv1alpha1.SchemeGroupVersion.WithKind("APIBinding"),
		apisv1alpha2.SchemeGroupVersion.WithKind("APIExport"),
		apisv1alpha2.SchemeGroupVersion.WithKind("APIBinding"),
		tenancyv1alpha1.SchemeGroupVersion.WithKind("Workspace"),
		authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"),
	} {
		mapper.Add(kind, meta.RESTScopeRoot)
	}
	scheme := workspaces.NewScheme()
	if err := errors.Join(capiv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
}

// workspace is the current one as the server's URL names it: by path, or by its
// logical cluster. Empty on a server that has none.
func workspaceOf(cfg *rest.Config) string {
	_, workspace, _ := strings.Cut(cfg.Host, "/clusters/")
	workspace, _, _ = strings.Cut(workspace, "/")
	return workspace
}
