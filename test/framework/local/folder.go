package local

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// These groups have more rights in kcp than others.
const (
	masters       = "system:masters"
	admins        = "system:kcp:admin"
	clusterAdmins = "system:kcp:logical-cluster-admin"
	proxiedAdmins = "system:kcp:external-logical-cluster-admin"
)

// folder holds the files that the servers of a Shards need: certificates and kubeconfigs, and a log and a folder for
// each server.
type folder struct {
	dir    string
	tokens string // file with the users
	proxy  int    // port of the front proxy

	people  *authority // signs the certificates of users and servers
	proxies *authority // signs the certificates of servers that speak for users
}

func (f *folder) file(name string) string { return filepath.Join(f.dir, name) }

// certify makes the files that belong to no single server.
func (f *folder) certify() (err error) {
	if f.people, err = newAuthority("kcp"); err != nil {
		return err
	}
	if f.proxies, err = newAuthority("kcp proxies"); err != nil {
		return err
	}
	accounts, err := newAuthority("kcp service accounts")
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"ca.crt": f.people.cert, "proxies.crt": f.proxies.cert, "accounts.key": accounts.key,
	} {
		if err := os.WriteFile(f.file(name), data, 0o600); err != nil {
			return err
		}
	}
	return f.grant("admin", url(f.proxy)+"/clusters/root", admins)
}

// write stores a certificate as name.crt and name.key.
func (f *folder) write(name string, p pair) error {
	if err := os.WriteFile(f.file(name+".crt"), p.cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(f.file(name+".key"), p.key, 0o600)
}

// grant stores name.kubeconfig, the access of a new user in a group to a server.
func (f *folder) grant(name, server, group string) error {
	who, err := f.people.client(name, group)
	if err != nil {
		return err
	}
	const context = "shard-base" // the name that kcp looks for
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[context] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: f.people.cert}
	kubeconfig.AuthInfos[context] = &clientcmdapi.AuthInfo{ClientCertificateData: who.cert, ClientKeyData: who.key}
	kubeconfig.Contexts[context] = &clientcmdapi.Context{Cluster: context, AuthInfo: context}
	kubeconfig.CurrentContext = context
	return clientcmd.WriteToFile(*kubeconfig, f.file(name+".kubeconfig"))
}

// server returns a server of this name, with a certificate, a log, a kubeconfig for a user in a group, and the flags
// that all servers have.
func (f *folder) server(name, program string, port int, group string) (*server, error) {
	binary, err := built(program, "kcp-shards")
	if err != nil {
		return nil, err
	}
	cert, err := f.people.server()
	if err != nil {
		return nil, err
	}
	if err := f.write(name, cert); err != nil {
		return nil, err
	}
	if err := f.grant(name, url(port), group); err != nil {
		return nil, err
	}
	return &server{
		access: f.file(name + ".kubeconfig"),
		process: process{name: "kcp " + name, log: f.file(name + ".log"), args: []string{
			binary,
			flag("root-directory", f.file(name)),
			flag("bind-address", "127.0.0.1"), flag("secure-port", port),
			flag("tls-cert-file", f.file(name+".crt")), flag("tls-private-key-file", f.file(name+".key")),
			flag("client-ca-file", f.file("ca.crt")),
		}},
	}, nil
}

// cacheServer returns the server over which shards exchange the objects that all must know.
func (f *folder) cacheServer(ports []int) (*server, error) {
	s, err := f.server("cache", "cache-server", ports[0], masters)
	if err != nil {
		return nil, err
	}
	s.args = append(s.args, flag("embedded-etcd-client-port", ports[1]), flag("embedded-etcd-peer-port", ports[2]))
	return s, nil
}

// shard returns a server that keeps workspaces. name is its name among the shards.
func (f *folder) shard(name string, ports []int) (*server, error) {
	s, err := f.server(name, "kcp", ports[0], masters)
	if err != nil {
		return nil, err
	}
	for account, row := range map[string]struct{ server, group string }{
		"inside":  {url(ports[0]), clusterAdmins},
		"outside": {url(f.proxy), proxiedAdmins},
	} {
		if err := f.grant(name+"-"+account, row.server, row.group); err != nil {
			return nil, err
		}
	}
	self, err := f.people.client("kcp-shard-"+name, masters)
	if err != nil {
		return nil, err
	}
	if err := f.write(name+"-self", self); err != nil {
		return nil, err
	}
	s.args = append(s.args,
		flag("shard-name", name),
		flag("shard-base-url", url(ports[0])), flag("shard-external-url", url(f.proxy)),
		flag("shard-virtual-workspace-ca-file", f.file("ca.crt")),
		flag("shard-client-cert-file", f.file(name+"-self.crt")), flag("shard-client-key-file", f.file(name+"-self.key")),
		flag("cache-kubeconfig", f.file("cache.kubeconfig")),
		flag("logical-cluster-admin-kubeconfig", f.file(name+"-inside.kubeconfig")),
		flag("external-logical-cluster-admin-kubeconfig", f.file(name+"-outside.kubeconfig")),
		flag("embedded-etcd-client-port", ports[1]), flag("embedded-etcd-peer-port", ports[2]),
		flag("requestheader-client-ca-file", f.file("proxies.crt")),
		flag("requestheader-username-headers", "X-Remote-User"),
		flag("requestheader-group-headers", "X-Remote-Group"),
		flag("requestheader-extra-headers-prefix", "X-Remote-Extra-"),
		flag("service-account-key-file", f.file("accounts.key")),
		flag("service-account-private-key-file", f.file("accounts.key")),
		flag("service-account-signing-key-file", f.file("accounts.key")),
		flag("token-auth-file", f.tokens),
		flag("feature-gates", "CacheAPIs=true"),
	)
	s.args = append([]string{s.args[0], "start"}, s.args[1:]...)
	if name != RootShard {
		s.args = append(s.args, flag("root-shard-kubeconfig-file", f.file(RootShard+".kubeconfig")))
	}
	return s, nil
}

// frontProxy returns the server that users speak to.
func (f *folder) frontProxy() (*server, error) {
	s, err := f.server("proxy", "kcp-front-proxy", f.proxy, admins)
	if err != nil {
		return nil, err
	}
	spokesman, err := f.proxies.client("kcp-front-proxy", "")
	if err != nil {
		return nil, err
	}
	if err := f.write("proxy-spokesman", spokesman); err != nil {
		return nil, err
	}
	// kcp finds the shard of a workspace by itself, whatever the backend is here.
	mapping := fmt.Sprintf(`[{"path": "/clusters/", "backend": %q, "backend_server_ca": %q, "proxy_client_cert": %q, "proxy_client_key": %q}]`,
		url(f.proxy), f.file("ca.crt"), f.file("proxy-spokesman.crt"), f.file("proxy-spokesman.key"))
	if err := os.WriteFile(f.file("mapping.yaml"), []byte(mapping), 0o600); err != nil {
		return nil, err
	}
	s.args = append(s.args,
		flag("mapping-file", f.file("mapping.yaml")),
		flag("root-kubeconfig", f.file(RootShard+".kubeconfig")),
		flag("shards-kubeconfig", f.file(RootShard+".kubeconfig")), // the proxy takes only the certificate from it
	)
	return s, nil
}
