// Package session is one run of the program. It has the streams, the access to a server, the view of the caller there,
// the clock, and all that commands share, such as completion and flags.
package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capiv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/rights"
	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/screen"
	"github.com/kcp-ipam/ipam/workspaces"
)

// Session is one run of the program: its streams, its access to a server, and its clock.
type Session struct {
	genericiooptions.IOStreams
	Flags *genericclioptions.ConfigFlags
	// Now is the clock by which ages are shown.
	Now func() time.Time
	// Paint colours the output on stdout, and ErrPaint that on stderr.
	Paint, ErrPaint screen.Paint
	// Asks is set if a user is there who can answer questions.
	Asks bool
	// written remembers the first error in writing to stdout.
	written *screen.Recorder
	// connection has the given flags that say which server is asked, and as which user.
	connection string
	// writes is the verb by which this command changes objects after it has read them; empty if it changes none.
	writes string
	// saying is held while a line is written.
	saying sync.Mutex
	// started is set once the command begins its work. An error before that is one of wrong usage.
	started bool
}

// New makes a session with these streams, and with the environment of the process.
func New(streams genericiooptions.IOStreams) *Session {
	s := &Session{
		Flags:    genericclioptions.NewConfigFlags(true),
		Now:      time.Now,
		Paint:    screen.PaintFor(streams.Out, os.Getenv),
		ErrPaint: screen.PaintFor(streams.ErrOut, os.Getenv),
		Asks:     screen.IsTerminal(streams.In),
	}
	s.written = &screen.Recorder{Writer: streams.Out}
	s.IOStreams = genericiooptions.IOStreams{
		In:     streams.In,
		Out:    screen.Writer{Writer: s.written, Paint: &s.Paint, Terminal: screen.IsTerminal(streams.Out)},
		ErrOut: screen.Writer{Writer: streams.ErrOut, Paint: &s.ErrPaint, Terminal: screen.IsTerminal(streams.ErrOut)},
	}
	*s.Flags.Timeout = requestTimeout
	s.Flags.WrapConfigFn = func(cfg *rest.Config) *rest.Config {
		cfg.QPS = -1 // no limit here: the server says when to slow down
		if after := cfg.Timeout; after > 0 {
			cfg.Timeout = 0 // a timeout would end watches, too
			cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return limit{next, after} })
		}
		cfg.WarningHandler = rest.NewWarningWriter(s.ErrOut,
			rest.WarningWriterOptions{Deduplicate: true, Color: bool(s.ErrPaint)})
		return cfg
	}
	return s
}

// Execute runs one command line and returns the exit code.
func (s *Session) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	s.markStarts(root)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil && s.written.Err != nil {
		err = exit.Fail(exit.Error, "", "write to stdout: %w", s.written.Err)
	}
	if err == nil {
		return exit.OK
	}
	if s.written.Err == nil && (!s.started || exit.CodeOf(err) == exit.Usage && exit.HintOf(err) == "") {
		err = &exit.Failure{
			Code: exit.Usage, Err: err, Hint: fmt.Sprintf("%s --help shows how it is used", cmd.CommandPath()),
		}
	}
	s.Report(err)
	return exit.CodeOf(err)
}

// writing has the verb that a command needs beside the right to read, by the name of the command.
var writing = map[string]string{
	"create": "create", "import": "create", "release": "delete", "move": "create", "pin": "patch",
}

// markStarts makes every command note that its work begins, as its command line is valid.
func (s *Session) markStarts(cmd *cobra.Command) {
	for _, below := range cmd.Commands() {
		s.markStarts(below)
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := refuseEmpty(cmd.Flags()); err != nil {
			return err
		}
		s.started, s.connection, s.writes = true, connection(cmd.InheritedFlags()), writing[cmd.Name()]
		return run(cmd, args)
	}
}

// Say writes a line to stderr. It is safe for concurrent use.
func (s *Session) Say(format string, args ...any) {
	s.saying.Lock()
	defer s.saying.Unlock()
	screen.Line(s.ErrOut, "%s", s.Aimed(fmt.Sprintf(format, args...)))
}

// Report prints an error to stderr, and what to do about it.
func (s *Session) Report(err error) {
	for _, one := range exit.Joined(err) {
		screen.Line(s.ErrOut, "%s %s", s.ErrPaint.Red("error:"), s.Aimed(exit.Explain(one)))
	}
	if hints := s.hintOf(err); hints != "" {
		for hint := range strings.SplitSeq(hints, "\n") {
			s.Hint(hint)
		}
	}
}

// Hint prints advice. Commands in it are made to reach the server of this command.
func (s *Session) Hint(text string) {
	screen.Line(s.ErrOut, "%s %s", s.ErrPaint.Dim("hint:"), s.Aimed(text))
}

// hintOf returns advice on an error. If a request was refused, the user needs a role. Which roles exist depends on the
// place, so hintOf asks the server for its kind.
func (s *Session) hintOf(err error) string {
	hint := exit.HintOf(err)
	refusal, ok := rights.RefusalOf(err)
	if hint != "" || !ok {
		return hint
	}
	at, err := s.Place()
	if err != nil {
		return ""
	}
	return refusal.For(s.writes).Remedy(at)
}

// Place returns the kind of the current workspace or cluster. It returns an error if the server does not answer.
func (s *Session) Place() (rights.Place, error) {
	cfg, err := s.Config()
	if err != nil {
		return "", err
	}
	asked, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return "", err
	}
	return rights.Find(asked)
}

// Waits returns a function that prints on a terminal what the program waits for. It prints only when the text changes.
func (s *Session) Waits() func(words string) {
	said := ""
	return func(words string) {
		if w, ok := s.ErrOut.(screen.Writer); ok && w.Terminal && words != said {
			said = words
			s.Say("%s", words)
		}
	}
}

// Page returns a sheet for stdout.
func (s *Session) Page() *screen.Sheet { return &screen.Sheet{W: s.Out, Paint: s.Paint} }

// Config returns the configuration that follows from kubeconfig and flags.
func (s *Session) Config() (*rest.Config, error) { return s.Flags.ToRESTConfig() }

// Namespace returns the current namespace, or that of --namespace.
func (s *Session) Namespace() (string, error) {
	namespace, _, err := s.Flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// Access is a client for the current workspace, with the current namespace. It reads from the server, without a cache.
type Access struct {
	client.WithWatch
	Config    *rest.Config
	Namespace string
}

// Here returns the access to the current workspace. It sends no request.
func (s *Session) Here() (here Access, err error) {
	if here.Namespace, err = s.Namespace(); err != nil {
		return here, err
	}
	if here.Config, err = s.Config(); err != nil {
		return here, err
	}
	here.WithWatch, err = NewClient(here.Config)
	return here, err
}

// Key returns the key of an object in the current namespace.
func (a Access) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.Namespace, Name: name}
}

// Workspace returns the current workspace as the server's URL names it: by its path, or by its logical cluster. It is
// empty if the server has no workspaces.
func (a Access) Workspace() string {
	_, workspace, _ := strings.Cut(a.Config.Host, "/clusters/")
	workspace, _, _ = strings.Cut(workspace, "/")
	return workspace
}

// NewClient makes a client. As it knows where its kinds are served, this sends no request.
func NewClient(cfg *rest.Config) (client.WithWatch, error) {
	mapper := meta.NewDefaultRESTMapper(nil)
	scheme := workspaces.NewScheme()
	if err := errors.Join(capiv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	for scope, objects := range map[meta.RESTScope][]client.Object{
		meta.RESTScopeNamespace: {
			&ipamv1alpha1.IPClaim{}, &ipamv1alpha1.IPAllocation{}, &rbacv1.RoleBinding{},
			&capiv1.IPAddressClaim{}, &clusterv1.Cluster{}, &corev1.ConfigMap{},
		},
		meta.RESTScopeRoot: {
			&ipamv1alpha1.IPClass{}, &ipamv1alpha1.IPPool{}, &apisv1alpha1.APIExportEndpointSlice{},
			&apisv1alpha2.APIExport{}, &apisv1alpha2.APIBinding{}, &tenancyv1alpha1.Workspace{},
			&corev1.Namespace{}, &authorizationv1.SelfSubjectAccessReview{},
			&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
		},
	} {
		for _, object := range objects {
			kind, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				return nil, err
			}
			mapper.Add(kind, scope)
		}
	}
	return client.NewWithWatch(cfg, client.Options{Scheme: scheme, Mapper: mapper})
}
