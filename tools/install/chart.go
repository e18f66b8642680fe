package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartName is the name of the Helm chart, and of the folder in its archive.
const chartName = "kcp-ipam"

// modes are the overlays of the chart, by the value of mode that chooses one.
var modes = map[string]string{
	"embedded": "deploy/overlays/dev", "external": "deploy/overlays/ha", "standalone": "deploy/overlays/standalone",
}

// values are the defaults of the chart. They make it render what the overlays are.
const values = `# What runs: "embedded" is one replica with its own etcd for a kcp, "external" is three with an etcd of yours for a kcp, and
# "standalone" is one with its own etcd for this cluster, without kcp.
mode: embedded

image:
  repository: %s
  tag: "" # empty: the version of the chart

# The platform workspace of kcp.
workspace: root:ipam

# Where kcp, or this cluster, reaches the webhooks.
webhookURL: https://ipam-webhook.ipam-system.svc

etcd:
  # The members of your etcd, in the mode external.
  servers: [https://etcd-0.etcd:2379, https://etcd-1.etcd:2379, https://etcd-2.etcd:2379]

# How many replicas run in the mode external.
replicas: 3

resources:
  requests: {cpu: 250m, memory: 512Mi}
  limits: {memory: 2Gi}

# The size of the volume of the embedded etcd.
storage: 10Gi

# Further flags of ipam-controller.
args: []
`

// here refuses another namespace: policies and RBAC know the controller by this one.
const here = `{{- if ne .Release.Namespace "ipam-system" }}{{ fail "install into the namespace ipam-system: --namespace ipam-system" }}{{ end }}
{{- if not (has .Values.mode (list "embedded" "external" "standalone")) }}{{ fail "mode is embedded, external or standalone" }}{{ end }}
`

// variable is a part of an overlay that the values of the chart set. It stands in all overlays, or in those of modes.
type variable struct {
	modes    []string
	is       *regexp.Regexp
	template string
}

var variables = []variable{
	{nil, regexp.MustCompile(`(?m)^( +)image: placeholder:placeholder$`),
		`${1}image: {{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}`},
	{nil, regexp.MustCompile(`(?m)^        resources:\n(?: {10}.*\n)+`), "        resources: {{ toJson .Values.resources }}\n"},
	{nil, regexp.MustCompile(`(?m)^(        image: )`), "        {{- range .Values.args }}\n        - {{ . | quote }}\n        {{- end }}\n$1"},
	{[]string{"embedded", "external"}, regexp.MustCompile(`--workspace=root:ipam`), `--workspace={{ .Values.workspace }}`},
	{[]string{"embedded", "external"}, regexp.MustCompile(`--webhook-url=\S+`), `--webhook-url={{ .Values.webhookURL }}`},
	{[]string{"external"}, regexp.MustCompile(`--etcd-servers=\S+`), `--etcd-servers={{ join "," .Values.etcd.servers }}`},
	{[]string{"external"}, regexp.MustCompile(`replicas: 3`), `replicas: {{ .Values.replicas }}`},
	{[]string{"embedded", "standalone"}, regexp.MustCompile(`storage: 10Gi`), `storage: {{ .Values.storage }}`},
}

// namespace is the object that helm install --create-namespace makes.
var namespace = regexp.MustCompile(`(?m)\AapiVersion: v1\nkind: Namespace\n(?:[^-].*\n)+---\n|^---\napiVersion: v1\nkind: Namespace\n(?:[^-].*\n)+`)

// released matches a version that Helm takes as it is.
var released = regexp.MustCompile(`^v?\d+\.\d+\.\d+`)

// chartVersion returns the version of the chart. Helm takes none that is not semantic, such as a commit.
func chartVersion(version string) string {
	if !released.MatchString(version) {
		return "0.0.0-" + version
	}
	return strings.TrimPrefix(version, "v")
}

// writeChart writes an archive with a Helm chart of the overlays. root has config.
func writeChart(root, out, repository, version string) error {
	about, err := yaml.Marshal(map[string]any{
		"apiVersion": "v2", "name": chartName, "type": "application",
		"description": "IP address management for the workspaces of a kcp, or for one Kubernetes cluster",
		"version":     chartVersion(version), "appVersion": version,
		"sources": []string{"https://github.com/kcp-ipam/ipam"}, "kubeVersion": ">=1.31.0-0",
	})
	if err != nil {
		return err
	}
	files := map[string]string{
		"Chart.yaml": string(about), "values.yaml": fmt.Sprintf(values, repository), "templates/mode.yaml": here,
	}
	for mode, overlay := range modes {
		manifest, err := render(root, overlay, "placeholder", "placeholder")
		if err != nil {
			return err
		}
		if files["templates/"+mode+".yaml"], err = templated(mode, string(manifest)); err != nil {
			return fmt.Errorf("%s: %w", overlay, err)
		}
	}
	archive, err := packed(files)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, chartName+"-"+chartVersion(version)+".tgz"), archive, 0o644)
}

// packed returns a compressed archive of files in the folder of the chart.
func packed(files map[string]string) ([]byte, error) {
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	to := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: chartName + "/" + name, Mode: 0o644, Size: int64(len(files[name]))}
		if err := to.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(to, files[name]); err != nil {
			return nil, err
		}
	}
	err := errors.Join(to.Close(), compressed.Close())
	return archive.Bytes(), err
}

// templated makes a template of an overlay. A part that is to be variable and is not there is an error: the overlay has
// changed, and the chart would ignore a value.
func templated(mode, manifest string) (string, error) {
	if strings.Contains(manifest, "{{") {
		return "", errors.New("the manifests have {{, which Helm takes for its own")
	}
	if !namespace.MatchString(manifest) {
		return "", errors.New("there is no Namespace to leave out")
	}
	manifest = namespace.ReplaceAllString(manifest, "")
	for _, v := range variables {
		if v.modes != nil && !slices.Contains(v.modes, mode) {
			continue
		}
		if found := len(v.is.FindAllString(manifest, -1)); found != 1 {
			return "", fmt.Errorf("%s is there %d times; want once", v.is, found)
		}
		manifest = v.is.ReplaceAllString(manifest, v.template)
	}
	return fmt.Sprintf("{{- if eq .Values.mode %q }}\n%s{{- end }}\n", mode, manifest), nil
}
