// Package session is one run of the program: its streams, its access to a server, how far its caller sees there, its
// clock, and what all commands share, such as completion and flags.
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
	// Now is the clock of ages.
	Now func() time.Time
	// Paint and ErrPaint colour what goes to stdout and to stderr.
	Paint, ErrPaint screen.Paint
	// Asks is whether somebody is there to answer a question.
	Asks bool
	// written remembers what went wrong with stdout.
	written *screen.Recorder
	// connection are the flags of this command line that say which server it asks, and as which user.
	connection string
	// writes is the verb by which this command changes the objects that it reads first; empty if it changes none.
	writes string
	// saying is held while a line is written.
	saying sync.Mutex
	// started is set once a command does its work: what fails before is wrong usage.
	started bool
}

// New makes a session of streams, and of the environment.
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
		cfg.QPS = -1 // the server says when to slow down
		if after := cfg.Timeout; after > 0 {
			cfg.Timeout = 0 // which would end watches, too
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

// writing are the commands that need more than the right to read, by the name of each.
var writing = map[string]string{
	"create": "create", "import": "create", "release": "delete", "move": "create", "pin": "patch",
}

// markStarts makes every command note that its command line was valid.
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

// Report writes an error to stderr, and what to do about it.
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

// Hint prints advice, with the commands in it aimed at the server of this one.
func (s *Session) Hint(text string) {
	screen.Line(s.ErrOut, "%s %s", s.ErrPaint.Dim("hint:"), s.Aimed(text))
}

// hintOf returns the advice on an error. A refused request needs a role, and the roles depend on the place, for which
// the server is asked.
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

// Place returns the kind of the current workspace or cluster. An error says that the server gave no answer.
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

// Waits returns a function that tells people on a terminal what the program waits for, each time that it is something
// else.
func (s *Session) Waits() func(words string) {
	said := ""
	return func(words string) {
		if w, ok := s.ErrOut.(screen.Writer); ok && w.Terminal && words != said {
			said = words
			s.Say("%s", words)
		}
	}
}

// Page describes one thing on stdout.
func (s *Session) Page() *screen.Sheet { return &screen.Sheet{W: s.Out, Paint: s.Paint} }

// Config is the access that kubeconfig and flags describe.
func (s *Session) Config() (*rest.Config, error) { return s.Flags.ToRESTConfig() }

// Namespace is the current one, or that of --namespace.
func (s *Session) Namespace() (string, error) {
	namespace, _, err := s.Flags.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// Access is a client of the current workspace, which reads live, and the current namespace in it.
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

// Key returns the key of a name in the current namespace.
func (a Access) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: a.Namespace, Name: name}
}

// Workspace returns the current workspace as the server's URL names it: by path, or by its
// logical cluster. It is empty on a server that has none.
func (a Access) Workspace() string {
	_, workspace, _ := strings.Cut(a.Config.Host, "/clusters/")
	workspace, _, _ = strings.Cut(workspace, "/")
	return workspace
}

// NewClient knows where its kinds are served, and sends no request.
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
