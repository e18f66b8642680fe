package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
	"github.com/kcp-ipam/ipam/internal/lookup"
	"github.com/kcp-ipam/ipam/workspaces"
)

// maxHistory bounds an answer of the controller, in bytes: the most holders that a query asks for have some of them.
const maxHistory = 256 << 20

// History asks the controller of the platform who holds and held addresses. at is the URL of the controller; empty: the
// URL and the CA that are published in the current workspace or cluster. The request has the token of the caller. The
// owner of any workspace can publish a URL there. So the token is sent only to the host of the kubeconfig's server, or
// to a URL that the caller has given.
func (a Access) History(ctx context.Context, at string, q lookup.Query) (answer lookup.Answer, err error) {
	published := &corev1.ConfigMap{}
	err = a.Get(ctx, client.ObjectKey{Namespace: workspaces.ControllerNamespace, Name: lookup.Address}, published)
	switch {
	case apierrors.IsNotFound(err):
		return answer, exit.Fail(exit.NotFound,
			"on kcp ask in the workspace of the platform, which --context or --server names; "+
				"a controller without webhooks serves no history: run ipam-controller history on its machine",
			"no history is served here")
	case apierrors.IsForbidden(err):
		return answer, &exit.Failure{Code: exit.Forbidden, Hint: mayAsk, Err: err}
	case err != nil:
		return answer, err
	}
	server, err := url.Parse(published.Data[lookup.URL])
	if err != nil || server.Scheme != "https" {
		return answer, fmt.Errorf("the ConfigMap %s/%s has no URL of a controller", published.Namespace, published.Name)
	}
	if at == "" {
		if err := a.sameHost(server); err != nil {
			return answer, err
		}
	}
	asker, err := a.asker(server.Hostname(), published.Data[lookup.CA])
	if err != nil {
		return answer, err
	}
	at = strings.TrimSuffix(cmp.Or(at, server.String()), "/") + lookup.Path
	text, err := ask(ctx, asker, at, q)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return answer, fmt.Errorf("read the answer of %s: %w", at, err)
	}
	return answer, nil
}

// sameHost returns an error unless a server is on the host of the kubeconfig's server.
func (a Access) sameHost(server *url.URL) error {
	own, _, err := rest.DefaultServerUrlFor(a.Config)
	if err != nil || server.Hostname() == own.Hostname() {
		return err
	}
	return exit.Fail(exit.Forbidden,
		"if you trust the owner of this workspace, and that is your controller, give --controller "+server.String()+
			"; or forward its port, and give --controller https://127.0.0.1:PORT",
		"the history is at %s, which is not the host of your kubeconfig's server; your credential was not sent there", server)
}

// mayAsk says how to get the right to read the history.
const mayAsk = "an admin of the platform can run kubectl ipam grant " + lookup.Role + " --user NAME in its workspace"

// asker returns a client for the controller. The controller must show a certificate for host, signed by one of the CAs
// in ca; empty: by one of the system's. The client sends the token of the caller, and no certificate.
func (a Access) asker(host, ca string) (*http.Client, error) {
	cfg := rest.CopyConfig(a.Config)
	if cfg.Impersonate.UserName != "" {
		return nil, exit.Usagef("--as is known to the API server alone; leave it out")
	}
	if cfg.BearerToken == "" && cfg.BearerTokenFile == "" && cfg.ExecProvider == nil && cfg.AuthProvider == nil {
		return nil, exit.Fail(exit.Forbidden,
			"the controller knows people by a token, not by a certificate: give one by --token, such as that of "+
				"kubectl create token NAME, for a service account with the role "+lookup.Role,
			"your kubeconfig has no token")
	}
	cfg.TLSClientConfig = rest.TLSClientConfig{ServerName: host, CAData: []byte(ca)}
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	// A redirect would take the token along.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// ask sends a query, and returns the text of the answer.
func ask(ctx context.Context, asker *http.Client, at string, q lookup.Query) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"?"+q.Values().Encode(), nil)
	if err != nil {
		return nil, exit.Usagef("%s is no URL of a controller; write https://HOST:PORT", at)
	}
	if request.URL.Scheme != "https" {
		return nil, exit.Usagef("%s would send your token in the clear; write https://HOST:PORT", at)
	}
	response, err := asker.Do(request)
	if err != nil {
		return nil, exit.Fail(exit.Unavailable,
			"the controller answers where kcp reaches its webhooks: from elsewhere forward its port, as by kubectl -n "+
				workspaces.ControllerNamespace+" port-forward service/ipam-webhook 9443:443, "+
				"and give --controller https://127.0.0.1:9443",
			"ask the controller: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // The response was only read.
	text, err := io.ReadAll(io.LimitReader(response.Body, maxHistory))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", at, err)
	}
	said := strings.TrimSpace(string(text))
	switch response.StatusCode {
	case http.StatusOK:
		return text, nil
	case http.StatusBadRequest:
		return nil, exit.Fail(exit.Invalid, "", "the controller says: %s", said)
	case http.StatusUnauthorized:
		return nil, exit.Fail(exit.Forbidden, "log in again, or give another token by --token",
			"the controller says: %s", said)
	case http.StatusForbidden:
		return nil, exit.Fail(exit.Forbidden, mayAsk, "the controller says: %s", said)
	case http.StatusNotFound:
		return nil, exit.Fail(exit.NotFound, "upgrade the controller, or run ipam-controller history on its machine",
			"the controller at %s serves no history", at)
	}
	return nil, exit.Fail(exit.Unavailable, "ask again in some seconds",
		"the controller says: %s: %s", response.Status, said)
}
