// Package health shows the health that tools of GitOps give an object: by kstatus, which Flux and others use, and by
// the health check of config/argocd, which Argo CD uses.
package health

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"github.com/kcp-ipam/ipam/test/framework/local"
)

// Health is the state of an object as a tool that waits for it sees it, in the words of Argo CD.
type Health string

// The states of an object.
const (
	Healthy     Health = "Healthy"
	Progressing Health = "Progressing"
	Degraded    Health = "Degraded"
)

// ofKstatus translates the states of kstatus.
var ofKstatus = map[status.Status]Health{
	status.CurrentStatus: Healthy, status.InProgressStatus: Progressing, status.TerminatingStatus: Progressing, status.FailedStatus: Degraded,
}

// Of returns the health of an object. It is an error if the tools differ.
func Of(object *unstructured.Unstructured) (Health, error) {
	computed, err := status.Compute(object)
	if err != nil {
		return "", fmt.Errorf("kstatus: %w", err)
	}
	argo, err := argoCD(object)
	if err != nil {
		return "", fmt.Errorf("health.lua: %w", err)
	}
	if flux := ofKstatus[computed.Status]; flux != argo {
		return "", fmt.Errorf("kstatus calls the object %s (%s), and Argo CD %s", computed.Status, computed.Message, argo)
	}
	return argo, nil
}

// argoCD runs the health check as Argo CD does: with the object as the global obj, and few libraries.
func argoCD(object *unstructured.Unstructured) (Health, error) {
	script, err := script()
	if err != nil {
		return "", err
	}
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer vm.Close()
	for _, open := range []lua.LGFunction{lua.OpenPackage, lua.OpenBase, lua.OpenTable} {
		vm.Push(vm.NewFunction(open))
		vm.Call(0, 0)
	}
	vm.SetGlobal("obj", valueOf(vm, object.Object))
	if err := vm.DoString(script); err != nil {
		return "", err
	}
	health, ok := vm.Get(-1).(*lua.LTable)
	if !ok || health.RawGetString("message").Type() != lua.LTString {
		return "", errors.New("it returns no table with a message")
	}
	return Health(health.RawGetString("status").String()), nil
}

// script returns the health check for the kinds of this API.
func script() (string, error) {
	root, err := local.ModuleRoot()
	if err != nil {
		return "", err
	}
	manifest, err := os.ReadFile(filepath.Join(root, "config", "argocd", "argocd-cm.yaml"))
	if err != nil {
		return "", err
	}
	settings := corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(manifest, &settings); err != nil {
		return "", err
	}
	customized := map[string]map[string]string{}
	err = yaml.UnmarshalStrict([]byte(settings.Data["resource.customizations"]), &customized)
	return customized["ipam.miloapis.com/*"]["health.lua"], err
}

// valueOf returns a value of JSON as a value of Lua.
func valueOf(vm *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := vm.NewTable()
		for key, field := range value {
			table.RawSetString(key, valueOf(vm, field))
		}
		return table
	case []any:
		table := vm.NewTable()
		for _, item := range value {
			table.Append(valueOf(vm, item))
		}
		return table
	case string:
		return lua.LString(value)
	case bool:
		return lua.LBool(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	}
	return lua.LNil
}
