package chart

import (
	"slices"
	"strings"
)

// setting is a value of the chart that differs from the initial value.
type setting struct {
	name  string
	value any
	says  string // a text in the rendered objects
	modes string // the modes in which it counts; empty means all
	needs string // a switch that it needs
}

// settings has one setting for each value of the chart.
var settings = []setting{
	{name: "image.repository", value: "other/ipam", says: "other/ipam:v1.2.3"},
	{name: "image.tag", value: "v9", says: "registry.example/ipam:v9"},
	{name: "image.pullPolicy", value: "Always", says: "imagePullPolicy:Always"},
	{name: "imagePullSecrets", value: []any{map[string]any{"name": "pull"}}, says: "imagePullSecrets:[map[name:pull]]"},
	{name: "workspace", value: "root:other", says: "--workspace=root:other", modes: "embedded external"},
	{name: "webhookURL", value: "https://other.example", says: "--webhook-url=https://other.example", modes: "embedded external"},
	{name: "etcd.servers", value: []any{"https://a:2379", "https://b:2379"}, says: "--etcd-servers=https://a:2379,https://b:2379", modes: "external"},
	{name: "replicas", value: 5, says: "replicas:5", modes: "external"},
	{name: "args", value: []any{"--verbosity=1", "--workers=2"}, says: "--verbosity=1 --workers=2"},
	{name: "env", value: []any{map[string]any{"name": "A", "value": "b"}}, says: "map[name:A value:b]"},
	{name: "resources", value: map[string]any{"limits": map[string]any{"memory": "7Gi"}}, says: "resources:map[limits:map[memory:7Gi]"},
	{name: "storage.size", value: "77Gi", says: "storage:77Gi", modes: "embedded standalone"},
	{name: "storage.className", value: "fast", says: "storageClassName:fast", modes: "embedded standalone"},
	{name: "storage.accessModes", value: []any{"ReadWriteOnce"}, says: "accessModes:[ReadWriteOnce]", modes: "embedded standalone"},
	{name: "secrets.kubeconfig", value: "other-kubeconfig", says: "secretName:other-kubeconfig", modes: "embedded external"},
	{name: "secrets.etcd", value: "other-etcd", says: "secretName:other-etcd", modes: "external"},
	{name: "secrets.metrics", value: "other-metrics", says: "secretName:other-metrics", modes: "external"},
	{name: "nodeSelector", value: map[string]any{"disk": "ssd"}, says: "nodeSelector:map[disk:ssd]"},
	{name: "tolerations", value: []any{map[string]any{"key": "ipam"}}, says: "tolerations:[map[key:ipam]]"},
	{name: "affinity", value: map[string]any{"podAntiAffinity": map[string]any{}}, says: "affinity:map[podAntiAffinity:map[]]"},
	{name: "priorityClassName", value: "high", says: "priorityClassName:high"},
	{name: "podAnnotations", value: map[string]any{"a.example/b": "c"}, says: "annotations:map[a.example/b:c]"},
	{name: "podLabels", value: map[string]any{"team": "net"}, says: "team:net"},
	{name: "serviceAccount.annotations", value: map[string]any{"role.example": "d"}, says: "annotations:map[role.example:d]"},
	{name: "monitoring.enabled", value: true, says: "ServiceMonitor"},
	{name: "monitoring.labels", value: map[string]any{"release": "prometheus"}, says: "labels:map[release:prometheus]", needs: "monitoring.enabled"},
	{name: "monitoring.tlsConfig", value: map[string]any{"insecureSkipVerify": true}, says: "tlsConfig:map[insecureSkipVerify:true]", needs: "monitoring.enabled", modes: "external"},
	{name: "networkPolicy.enabled", value: false},
	{name: "podDisruptionBudget.enabled", value: false, modes: "external"},
}

// inMode returns the settings that count in a mode.
func inMode(mode string) []setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return s.modes != "" && !strings.Contains(s.modes, mode) })
}

// in returns the values of the setting in a mode.
func (s setting) in(mode string) map[string]any {
	values := map[string]any{"mode": mode}
	put(values, s.name, s.value)
	if s.needs != "" {
		put(values, s.needs, true)
	}
	return values
}

// put adds a value at a path of one or two words.
func put(values map[string]any, path string, value any) {
	group, key, ok := strings.Cut(path, ".")
	if !ok {
		values[path] = value
		return
	}
	in, _ := values[group].(map[string]any)
	if in == nil {
		in = map[string]any{}
		values[group] = in
	}
	in[key] = value
}
