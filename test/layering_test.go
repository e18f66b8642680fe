package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kcp-ipam/ipam/test/must"
)

const module = "github.com/kcp-ipam/ipam/"

// rules say what a package may not import. Names are import paths; those of this module leave the module out.
// "name/..." is a package and all below it.
var rules = []struct {
	why    string
	from   []string
	except []string
	never  []string
	// allowed are exceptions to never.
	allowed []string
	// deep counts what the imports import, too.
	deep bool
}{
	{
		why:   "the allocator knows no Kubernetes and none of its words",
		from:  []string{"allocator/..."},
		never: []string{"k8s.io/...", "sigs.k8s.io/...", "apis/...", "controllers/...", "workspaces/...", "config/...", "cmd/..."},
	},
	{
		why:   "who uses the allocator as a library gets no Kubernetes with it",
		from:  []string{"allocator", "allocator/index/...", "allocator/ledger"},
		never: []string{"k8s.io/...", "sigs.k8s.io/...", "go.etcd.io/etcd/server/..."},
		deep:  true,
	},
	{
		why:     "the words of the ledger are data",
		from:    []string{"allocator/ledger"},
		never:   []string{module + "...", "go.etcd.io/..."},
		allowed: []string{"allocator/index"},
	},
	{
		why:     "what reads and writes etcd knows nothing of what is free and of what was asked for",
		from:    []string{"allocator/internal/store"},
		never:   []string{module + "..."},
		allowed: []string{"allocator/ledger", "internal/..."},
	},
	{
		why:     "what is known in memory never asks etcd",
		from:    []string{"allocator/internal/space"},
		never:   []string{module + "...", "go.etcd.io/..."},
		allowed: []string{"allocator/ledger", "allocator/index", "allocator/internal/store", "internal/..."},
	},
	{
		why:     "the engine knows an operation as an interface, and never the face",
		from:    []string{"allocator/internal/engine"},
		never:   []string{module + "..."},
		allowed: []string{"allocator/ledger", "allocator/internal/space", "allocator/internal/store"},
	},
	{
		why:   "the ledger and the claims wait by one list, which knows neither",
		from:  []string{"internal/wait"},
		never: []string{module + "...", "k8s.io/...", "sigs.k8s.io/...", "go.etcd.io/..."},
	},
	{
		why:    "the server of etcd has one importer, beside the tests that run a cluster of it",
		from:   []string{"..."},
		except: []string{"allocator/embedetcd", "test/chaos/..."},
		never:  []string{"go.etcd.io/etcd/server/..."},
	},
	{
		why:     "the words stand below everything",
		from:    []string{"apis/..."},
		never:   []string{module + "..."},
		allowed: []string{"apis/..."},
	},
	{
		why:  "a program that only makes claims gets no server and no client with the words",
		from: []string{"apis/..."},
		never: []string{
			"go.etcd.io/...", "github.com/kcp-dev/...", "google.golang.org/...", "k8s.io/client-go/...",
			"k8s.io/apiserver/...", "sigs.k8s.io/controller-runtime/...", "sigs.k8s.io/multicluster-runtime/...",
		},
		deep: true,
	},
	{
		why:  "a program that claims by the Go client gets a Kubernetes client, and no server",
		from: []string{"ipamclient/..."},
		never: []string{
			"go.etcd.io/...", "github.com/kcp-dev/...", "google.golang.org/grpc/...",
			"k8s.io/apiserver/...", "sigs.k8s.io/multicluster-runtime/...",
			"allocator/...", "controllers/...", "workspaces/...", "config/...",
		},
		deep: true,
	},
	{
		why:   "the manifests stand below everything",
		from:  []string{"config/..."},
		never: []string{module + "..."},
	},
	{
		why:     "the ground knows no ledger and no walk",
		from:    []string{"workspaces/..."},
		never:   []string{module + "..."},
		allowed: []string{"workspaces/...", "apis/...", "config/..."},
	},
	{
		why:     "a walk knows no other walk: what they share is in controllers/internal",
		from:    []string{"controllers/..."},
		except:  []string{"controllers", "controllers/internal/..."},
		never:   []string{"controllers/..."},
		allowed: []string{"controllers/internal/...", "controllers/door"},
	},
	{
		why:     "what the walks share knows no walk",
		from:    []string{"controllers/internal/..."},
		never:   []string{"controllers/..."},
		allowed: []string{"controllers/internal/..."},
	},
	{
		why:   "to resolve is to compute: no client, no ledger",
		from:  []string{"controllers/internal/resolve"},
		never: []string{"allocator", "sigs.k8s.io/controller-runtime/...", "k8s.io/client-go/..."},
	},
	{
		why:   "machines are served by the API that everybody claims by",
		from:  []string{"controllers/capi"},
		never: []string{"allocator/...", "go.etcd.io/..."},
		deep:  true,
	},
	{
		why:   "a management cluster may be any Kubernetes",
		from:  []string{"controllers/capi"},
		never: []string{"github.com/kcp-dev/..."},
	},
	{
		why:   "the command line speaks the Kubernetes API, never etcd",
		from:  []string{"cmd/kubectl-ipam/..."},
		never: []string{"allocator/...", "controllers/...", "go.etcd.io/..."},
		deep:  true,
	},
	{
		why:    "a noun of the command line knows no other noun",
		from:   []string{"cmd/kubectl-ipam/..."},
		except: []string{"cmd/kubectl-ipam"},
		never: []string{"cmd/kubectl-ipam/claim", "cmd/kubectl-ipam/pool", "cmd/kubectl-ipam/class", "cmd/kubectl-ipam/address",
			"cmd/kubectl-ipam/tenant", "cmd/kubectl-ipam/check", "cmd/kubectl-ipam/transfer", "cmd/kubectl-ipam/ui"},
	},
	{
		why:   "to draw, to add up addresses and to read a plan is to compute; the pages ask a source that they are given",
		from:  []string{"cmd/kubectl-ipam/space", "cmd/kubectl-ipam/plan", "cmd/kubectl-ipam/page/..."},
		never: []string{"sigs.k8s.io/controller-runtime/...", "k8s.io/client-go/...", "workspaces/..."},
	},
	{
		why:    "nothing needs the tests, or a program's insides",
		from:   []string{"..."},
		except: []string{"test/...", "cmd/..."},
		never:  []string{"test/...", "cmd/..."},
	},
}

type listed struct {
	ImportPath    string
	Imports, Deps []string
}

func TestLayering(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for _, rule := range rules {
		for _, pkg := range packages {
			if !within(pkg.ImportPath, rule.from) || within(pkg.ImportPath, rule.except) {
				continue
			}
			imports := pkg.Imports
			if rule.deep {
				imports = pkg.Deps
			}
			for _, path := range imports {
				if within(path, rule.never) && !within(path, rule.allowed) {
					t.Errorf("%s imports %s: %s", pkg.ImportPath, path, rule.why)
				}
			}
		}
	}
}

// list returns the packages of this module.
func list(t *testing.T) []listed {
	t.Helper()
	out := must.Get(exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Imports,Deps", module+"...").Output())(t)
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg listed
		err := decoder.Decode(&pkg)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(pkg.ImportPath, module) {
			packages = append(packages, pkg)
		}
	}
	if len(packages) == 0 {
		t.Fatal("go list has found no package of this module")
	}
	return packages
}

// within reports whether a package matches one of the patterns.
func within(path string, patterns []string) bool {
	local := strings.TrimPrefix(path, module)
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		above, all := strings.CutSuffix(pattern, "...")
		if !all {
			return local == pattern
		}
		return path == strings.TrimSuffix(above, "/") || strings.HasPrefix(path, above) ||
			local == strings.TrimSuffix(above, "/") || strings.HasPrefix(local, above)
	})
}

func TestWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		path, pattern string
		want          bool
	}{
		{module + "allocator", "allocator/...", true},
		{module + "allocator/index", "allocator/...", true},
		{module + "allocator/index", "allocator", false},
		{module + "allocators", "allocator/...", false},
		{"k8s.io/api/core/v1", "k8s.io/...", true},
		{"sigs.k8s.io/yaml", "k8s.io/...", false},
		{module + "config", module + "...", true},
		{"fmt", module + "...", false},
		{"fmt", "...", true},
	} {
		if got := within(test.path, []string{test.pattern}); got != test.want {
			t.Errorf("within(%s, %s) = %t; want %t", test.path, test.pattern, got, test.want)
		}
	}
}
