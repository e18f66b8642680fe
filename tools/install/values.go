package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// value is a row of the chart's values. values.yaml, its schema, the README and the templates are made of the same rows.
type value struct {
	// name is the path of the value, in one or two words.
	name string
	// about describes the value, in one sentence.
	about string
	// initial is the default, as JSON. %s stands for the image's repository.
	initial string
	// schema is the JSON schema of the value.
	schema string
	// modes are those in which the value counts; nil means all.
	modes []string
	// slots are the places in the manifests that the value fills.
	slots []slot
}

const (
	text    = `{"type": "string"}`
	word    = `{"type": "string", "minLength": 1}`
	words   = `{"type": "array", "items": {"type": "string", "minLength": 1}}`
	object  = `{"type": "object"}`
	objects = `{"type": "array", "items": {"type": "object"}}`
	labels  = `{"type": "object", "additionalProperties": {"type": "string"}}`
	truth   = `{"type": "boolean"}`
)

// Where the values stand.
const (
	workload  = "Deployment, StatefulSet"
	pod       = "spec.template.spec."
	container = pod + "containers.0."
)

var (
	stateful = []string{"embedded", "standalone"}
	beside   = []string{"embedded", "external"}
	external = []string{"external"}
)

// values are the rows of the chart, in the order of values.yaml. By their initial values the chart renders the overlays.
var values = []value{
	{name: "mode", about: `What runs: "embedded" is one replica with its own etcd for a kcp, "external" is several with an etcd of yours for a kcp, and "standalone" is one with its own etcd for this cluster, without kcp. It cannot be changed by an upgrade.`,
		initial: `"embedded"`, schema: `{"enum": ["embedded", "external", "standalone"]}`},
	{name: "image.repository", about: "The image, without a tag.", initial: `"%s"`, schema: word,
		slots: []slot{replace(workload, container+"image", "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}")}},
	{name: "image.tag", about: "The tag of the image; empty means the version of the chart.", initial: `""`, schema: text},
	{name: "image.pullPolicy", about: "When the node pulls the image.", initial: `"IfNotPresent"`, schema: `{"enum": ["Always", "IfNotPresent", "Never"]}`,
		slots: []slot{replace(workload, container+"imagePullPolicy", "{{ .Values.image.pullPolicy }}")}},
	{name: "imagePullSecrets", about: "Secrets with the credentials of the registry, as a pod lists them.", initial: `[]`, schema: objects,
		slots: []slot{optional(workload, pod+"imagePullSecrets")}},
	{name: "workspace", about: "The platform workspace of kcp.", initial: `"root:ipam"`, schema: word, modes: beside,
		slots: []slot{element(workload, container+"args", "--workspace=", "--workspace={{ .Values.workspace }}")}},
	{name: "webhookURL", about: "Where kcp reaches the webhooks.", initial: `"https://ipam-webhook.ipam-system.svc"`, schema: `{"type": "string", "pattern": "^https://"}`, modes: beside,
		slots: []slot{element(workload, container+"args", "--webhook-url=", "--webhook-url={{ .Values.webhookURL }}")}},
	{name: "etcd.servers", about: "The members of your etcd.", initial: `["https://etcd-0.etcd:2379", "https://etcd-1.etcd:2379", "https://etcd-2.etcd:2379"]`,
		schema: `{"type": "array", "minItems": 1, "items": {"type": "string", "pattern": "^https?://"}}`, modes: external,
		slots: []slot{element(workload, container+"args", "--etcd-servers=", `--etcd-servers={{ join "," .Values.etcd.servers }}`)}},
	{name: "replicas", about: "How many replicas run; empty means 3. One works at a time.", initial: `null`, schema: `{"type": ["integer", "null"], "minimum": 1}`, modes: external,
		slots: []slot{replace("Deployment", "spec.replicas", "{{ .Values.replicas | default 3 }}")}},
	{name: "args", about: "Further flags of ipam-controller.", initial: `[]`, schema: words,
		slots: []slot{further(workload, container+"args")}},
	{name: "env", about: "Further environment variables, as a container lists them.", initial: `[]`, schema: objects,
		slots: []slot{further(workload, container+"env")}},
	{name: "resources", about: "The requests of a pod, and its limits.", initial: `{"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"memory": "2Gi"}}`, schema: object,
		slots: []slot{replace(workload, container+"resources", "{{ toJson .Values.resources }}")}},
	{name: "storage.size", about: "The size of the volume of the embedded etcd.", initial: `"10Gi"`, schema: word, modes: stateful,
		slots: []slot{replace("StatefulSet", "spec.volumeClaimTemplates.0.spec.resources.requests.storage", "{{ .Values.storage.size }}")}},
	{name: "storage.className", about: "The storage class of the volume; empty means the cluster's default. A fast local one is best.", initial: `""`, schema: text, modes: stateful,
		slots: []slot{optional("StatefulSet", "spec.volumeClaimTemplates.0.spec.storageClassName")}},
	{name: "storage.accessModes", about: "How the volume is mounted. A storage driver that knows no ReadWriteOncePod needs ReadWriteOnce.", initial: `["ReadWriteOncePod"]`, schema: words, modes: stateful,
		slots: []slot{replace("StatefulSet", "spec.volumeClaimTemplates.0.spec.accessModes", "{{ toJson .Values.storage.accessModes }}")}},
	{name: "secrets.kubeconfig", about: "The Secret with the kubeconfig for kcp, in the key kubeconfig.", initial: `"ipam-kubeconfig"`, schema: word, modes: beside,
		slots: []slot{volume("kubeconfig", "{{ .Values.secrets.kubeconfig }}")}},
	{name: "secrets.etcd", about: "The Secret with ca.crt, tls.crt and tls.key for etcd.", initial: `"ipam-etcd-client"`, schema: word, modes: external,
		slots: []slot{volume("etcd", "{{ .Values.secrets.etcd }}")}},
	{name: "secrets.metrics", about: "The Secret with the server's tls.crt and tls.key for /metrics, and the ca.crt of its clients.", initial: `"ipam-metrics"`, schema: word, modes: external,
		slots: []slot{volume("metrics", "{{ .Values.secrets.metrics }}")}},
	{name: "nodeSelector", about: "Labels of the nodes that may run the pods.", initial: `{}`, schema: labels,
		slots: []slot{optional(workload, pod+"nodeSelector")}},
	{name: "tolerations", about: "Taints of nodes that the pods tolerate.", initial: `[]`, schema: objects,
		slots: []slot{optional(workload, pod+"tolerations")}},
	{name: "affinity", about: "The pods' affinity. The spread over nodes of the mode external stays.", initial: `{}`, schema: object,
		slots: []slot{optional(workload, pod+"affinity")}},
	{name: "priorityClassName", about: "The pods' priority class.", initial: `""`, schema: text,
		slots: []slot{optional(workload, pod+"priorityClassName")}},
	{name: "podAnnotations", about: "Annotations of the pods.", initial: `{}`, schema: labels,
		slots: []slot{optional(workload, "spec.template.metadata.annotations")}},
	{name: "podLabels", about: "Further labels of the pods.", initial: `{}`, schema: labels,
		slots: []slot{further(workload, "spec.template.metadata.labels")}},
	{name: "serviceAccount.annotations", about: "Annotations of the service account.", initial: `{}`, schema: labels,
		slots: []slot{optional("ServiceAccount", "metadata.annotations")}},
	{name: "networkPolicy.enabled", about: "Whether a NetworkPolicy guards the pods. It lets out the usual ports of kcp and etcd alone.", initial: `true`, schema: truth,
		slots: []slot{whole("NetworkPolicy")}},
	{name: "podDisruptionBudget.enabled", about: "Whether a PodDisruptionBudget lets one replica at a time be evicted.", initial: `true`, schema: truth, modes: external,
		slots: []slot{whole("PodDisruptionBudget")}},
	{name: "monitoring.enabled", about: "Whether the chart has a ServiceMonitor, a PrometheusRule with the alerts, and a ConfigMap with the dashboard. The first two need the Prometheus operator.", initial: `false`, schema: truth},
	{name: "monitoring.labels", about: "Further labels of the ServiceMonitor and the PrometheusRule, as your Prometheus selects them.", initial: `{}`, schema: labels},
	{name: "monitoring.tlsConfig", about: "How Prometheus shows its client certificate, as the tlsConfig of a ServiceMonitor.", initial: `{}`, schema: object, modes: external},
}

// counts lists the modes in which a value counts; empty if it counts in all.
func (v value) counts() string {
	if v.modes == nil {
		return ""
	}
	return strings.Join(v.modes, ", ")
}

// split returns the group of a value, if it has one, and the word after the group.
func (v value) split() (group, key string) {
	group, key, ok := strings.Cut(v.name, ".")
	if !ok {
		return "", group
	}
	return group, key
}

// valuesFile returns values.yaml: the initial values with their comments.
func valuesFile(repository string) string {
	var file strings.Builder
	last := ""
	for _, v := range values {
		group, key := v.split()
		indent := ""
		if group != "" {
			indent = "  "
		}
		if group != last && group != "" {
			fmt.Fprintf(&file, "%s:\n", group)
		}
		last = group
		about := v.about
		if modes := v.counts(); modes != "" {
			about += " (" + modes + ")"
		}
		fmt.Fprintf(&file, "%s# %s\n%s%s: %s\n", indent, about, indent, key, strings.ReplaceAll(v.initial, "%s", repository))
	}
	return file.String()
}

// schemaFile returns values.schema.json, which refuses values that the chart does not have.
func schemaFile() (string, error) {
	properties := map[string]any{"global": map[string]any{"type": "object"}} // Helm's own, for charts above this one
	for _, v := range values {
		var schema map[string]any
		if err := json.Unmarshal([]byte(v.schema), &schema); err != nil {
			return "", fmt.Errorf("the schema of %s: %w", v.name, err)
		}
		schema["description"] = v.about
		group, key := v.split()
		if group == "" {
			properties[key] = schema
			continue
		}
		in, ok := properties[group].(map[string]any)
		if !ok {
			in = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
			properties[group] = in
		}
		in["properties"].(map[string]any)[key] = schema
	}
	file, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": false, "properties": properties,
	}, "", "  ")
	return string(file) + "\n", err
}

// readme returns README.md: how to install the chart, and a table of its values.
func readme(intro, repository string) string {
	var file strings.Builder
	file.WriteString(intro)
	file.WriteString("| Value | Default | Modes | What it does |\n|---|---|---|---|\n")
	for _, v := range values {
		modes := v.counts()
		if modes == "" {
			modes = "all"
		}
		fmt.Fprintf(&file, "| `%s` | `%s` | %s | %s |\n", v.name, strings.ReplaceAll(v.initial, "%s", repository), modes, v.about)
	}
	return file.String()
}
