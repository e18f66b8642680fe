// Package chart tests, with Helm itself, the Helm chart that tools/install makes from the overlays of config/deploy.
package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/must"
)

// root is the folder of this repository, relative to the folder of this package.
const root = "../.."

// overlays are the overlays of config/deploy from which the modes are made.
var overlays = map[string]string{"embedded": "dev", "external": "ha", "standalone": "standalone"}

// program is the Helm of tools/helm, and archive the chart as version v1.2.3. TestMain makes both.
var program, archive string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "chart")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	install := exec.CommandContext(context.Background(),
		"go", "run", "./tools/install", "-out", dir, "-image", "registry.example/ipam", "-version", "v1.2.3")
	install.Dir = root
	if said, err := install.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", install.Args, err, said)
	}
	archive = filepath.Join(dir, "kcp-ipam-1.2.3.tgz")
	build := exec.CommandContext(context.Background(), "go", "tool", "-n", "helm")
	build.Dir = filepath.Join(root, "tools", "helm")
	path, err := build.Output()
	if err != nil {
		return 0, fmt.Errorf("build Helm: %w", err)
	}
	program = strings.TrimSpace(string(path))
	return m.Run(), nil
}

// helm runs Helm, and returns its output. The error contains Helm's messages.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("helm %s: %w: %s", args[0], err, complaints.String())
	}
	return string(out), nil
}

// valuesFile writes values into a file, for helm -f.
func valuesFile(t *testing.T, values map[string]any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(file, must.Get(yaml.Marshal(values))(t), 0o600))
	return file
}

// rendered returns the objects of the chart with values, by kind and name.
func rendered(t *testing.T, namespace string, values map[string]any) (map[string]map[string]any, error) {
	t.Helper()
	text, err := helm(t, "template", "ipam", archive, "--namespace", namespace, "--kube-version", "v1.36.3", "-f", valuesFile(t, values))
	if err != nil {
		return nil, err
	}
	return objects(text)
}

// objects reads manifests, by kind and name, without their namespaces.
func objects(text string) (map[string]map[string]any, error) {
	found := map[string]map[string]any{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return nil, err
		}
		if metadata, ok := object["metadata"].(map[string]any); ok && object["kind"] != "Namespace" {
			found[fmt.Sprint(object["kind"], "/", metadata["name"])] = object
		}
	}
	return found, nil
}
