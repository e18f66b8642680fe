package reach

import (
	"net/url"
	"path"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/cmd/kubectl-ipam/exit"
)

// underExports is where kcp serves the content of APIExports. Below /clusters/ a workspace can be a
// mount, which is a server of its owner.
const underExports = "/services/apiexport/"

// trusts refuses an endpoint that may be a server of somebody else: the credential of the caller
// would go there. Endpoints are read from the current workspace, whose owner can write them.
//
// The server of the kubeconfig is trusted. So is any server that shows a certificate of the CA that
// the kubeconfig names; the CAs of the operating system sign for everybody.
func trusts(cfg *rest.Config, endpoint string) error {
	own, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return err
	}
	wrong := "it is not the server of the kubeconfig, and the kubeconfig names no CA by which to verify another one"
	at, err := url.Parse(endpoint)
	switch {
	case err != nil || at.User != nil || at.RawQuery != "" || at.Fragment != "" || path.Clean(at.Path) != strings.TrimSuffix(at.Path, "/"):
		wrong = "it is no URL of kcp"
	case !strings.HasPrefix(at.Path, underExports):
		wrong = "its path is not below " + underExports
	case at.Scheme == own.Scheme && portOf(at) == portOf(own) && at.Hostname() == own.Hostname():
		return nil
	case at.Scheme != "https":
		wrong = "it is not https"
	case !cfg.Insecure && (len(cfg.CAData) > 0 || cfg.CAFile != ""):
		return nil
	}
	return exit.Fail(exit.Forbidden,
		"if you trust the owner of this workspace, and the endpoint is one of your kcp, give the kubeconfig its CA: "+
			"kubectl config set-cluster NAME --certificate-authority FILE; else use another workspace",
		"the APIExportEndpointSlice of this workspace leads to %q: %s; your credential was not sent there", endpoint, wrong)
}

// portOf is the port of a URL, or that of its scheme.
func portOf(u *url.URL) string {
	if port := u.Port(); port != "" || u.Scheme != "https" {
		return port
	}
	return "443"
}
