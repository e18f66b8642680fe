package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/core"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/internal/lookup"
)

// forged is the beginning of a line that the server tries to add to the output.
const forged = "FORGED"

// hostile has escape sequences, C0 and C1 controls, DEL, bidirectional controls, and the
// characters that begin a new line or a new cell.
const hostile = "x\x1b[2J\x1b[31mred\x1b]0;title\x07\r\n" + forged + "\t\t" + forged + "\v\f\b\x00\u009b1m\u0085\x7f\u2028" + forged + "\u202e\u2066\U000e0001"

// evil is a server that has a hostile text in every string field.
type evil struct {
	*testing.T
	*httptest.Server
	bound      bool   // claims and pools have blocks, and valid CIDRs
	endpoint   string // the URL of an endpoint of the export
	controller *httptest.Server
}

func newEvil(t *testing.T, bound bool) *evil {
	e := &evil{T: t, bound: bound}
	e.Server = httptest.NewServer(http.HandlerFunc(e.serve))
	e.endpoint = e.URL + "/services/apiexport/id/ipam.miloapis.com"
	e.controller = httptest.NewTLSServer(http.HandlerFunc(e.tell))
	t.Cleanup(e.Close)
	t.Cleanup(e.controller.Close)
	return e
}

// secure returns the flags that reach the server by TLS, with a token. Without TLS no token is sent.
func (e *evil) secure() []string {
	front := httptest.NewTLSServer(http.HandlerFunc(e.serve))
	e.Cleanup(front.Close)
	return []string{"--server", front.URL, "--insecure-skip-tls-verify", "--token", "secret"}
}

// tell answers requests for the history.
func (e *evil) tell(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("claim") {
		http.Error(w, hostile, http.StatusForbidden)
		return
	}
	answer := lookup.Answer{Holders: make([]lookup.Holder, 1)}
	fill(reflect.ValueOf(&answer.Holders[0]).Elem())
	answer.Holders[0].Prefix = netip.MustParsePrefix("192.0.2.16/28")
	answer.Unreadable = []string{hostile}
	e.answer(w, answer)
}

// address returns the ConfigMap that says where the controller is.
func (e *evil) address() *corev1.ConfigMap {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: e.controller.Certificate().Raw})
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{lookup.URL: e.controller.URL, lookup.CA: string(ca)},
	}
}

func (e *evil) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Warning", "299 - \"\u202ewarning\u2066\"")
	parts := strings.Split(r.URL.Path[strings.LastIndex(r.URL.Path, "/apis/")+1:], "/")
	at := slices.IndexFunc(parts, func(part string) bool { return e.list(part) != nil })
	switch {
	case strings.HasSuffix(r.URL.Path, "/version"):
		e.answer(w, apiversion.Info{GitVersion: hostile})
	case strings.HasSuffix(r.URL.Path, "/configmaps/"+lookup.Address):
		e.answer(w, e.address())
	case at < 0:
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(hostile + "\xff\xfe\x9b"))
	case r.Method == http.MethodDelete:
		e.answer(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		e.watch(w, parts[at])
	case r.Method == http.MethodGet && at == len(parts)-1:
		e.answer(w, e.list(parts[at]))
	default:
		e.answer(w, e.one(parts[at]))
	}
}

// answer writes an object. A command whose time is over may have stopped reading.
func (e *evil) answer(w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	raw, err := json.Marshal(object)
	if err != nil {
		e.Error(err)
	}
	_, _ = w.Write(raw)
}

func (e *evil) watch(w http.ResponseWriter, plural string) {
	for _, kind := range []string{"MODIFIED", "DELETED"} {
		e.answer(w, map[string]any{"type": kind, "object": e.one(plural)})
		w.(http.Flusher).Flush()
	}
}

// one returns the object of a kind that the server has; nil for an unknown kind.
func (e *evil) one(plural string) client.Object {
	var object client.Object
	switch plural {
	case "ipclaims":
		object = &ipamv1alpha1.IPClaim{}
	case "ipallocations":
		object = &ipamv1alpha1.IPAllocation{}
	case "ippools":
		object = &ipamv1alpha1.IPPool{}
	case "ipclasses":
		object = &ipamv1alpha1.IPClass{}
	case "apibindings":
		object = &apisv1alpha2.APIBinding{}
	case "apiexportendpointslices":
		object = &apisv1alpha1.APIExportEndpointSlice{}
	default:
		return nil
	}
	fill(reflect.ValueOf(object).Elem())
	object.SetDeletionTimestamp(nil)
	object.SetManagedFields(nil)
	object.SetResourceVersion("7") // a watch needs a number
	object.SetAnnotations(map[string]string{core.LogicalClusterPathAnnotationKey: hostile, "kcp.io/cluster": hostile, hostile: hostile})
	e.shape(object)
	return object
}

// shape gives an object the values without which a command would not show the rest of it.
func (e *evil) shape(object client.Object) {
	refused := []metav1.Condition{
		{Type: ipamv1alpha1.ConditionAllocated, Status: metav1.ConditionFalse, Reason: hostile, Message: hostile + "; " + hostile},
		{Type: ipamv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: hostile, Message: hostile},
		{Type: ipamv1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: hostile, Message: hostile},
		{Type: ipamv1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: string(ipamv1alpha1.ReasonInUse), Message: hostile},
	}
	if e.bound {
		refused[0].Status = metav1.ConditionTrue
		refused[3].Reason = hostile
	}
	percent, free := 50.0, int32(26)
	switch object := object.(type) {
	case *ipamv1alpha1.IPClaim:
		object.Spec.PoolRef, object.Spec.PoolSelector = nil, nil
		object.Status.Conditions = refused
	case *ipamv1alpha1.IPPool:
		object.Spec.ParentPoolRef.ProjectRef.Name = "root:nowhere"
		object.Status.Conditions = refused
		object.Status.UtilizationPercent, object.Status.LargestFreePrefix = &percent, &free
		object.Status.Capacity.Allocated = "512"
		if e.bound {
			object.Status.AllocatedCIDR = "192.0.2.0/24"
		}
	case *ipamv1alpha1.IPAllocation:
		if e.bound {
			object.Status.AllocatedCIDR = "192.0.2.16/28"
		}
	case *ipamv1alpha1.IPClass:
		object.Status.Conditions = refused
	case *apisv1alpha2.APIBinding:
		object.Spec.Reference.Export.Path = "root:ipam"
	case *apisv1alpha1.APIExportEndpointSlice:
		object.Status.APIExportEndpoints = []apisv1alpha1.APIExportEndpoint{{URL: e.endpoint}}
	}
}

// list returns a list of a kind; nil for an unknown kind.
func (e *evil) list(plural string) any {
	object := e.one(plural)
	if object == nil {
		return nil
	}
	return map[string]any{
		"kind": reflect.TypeOf(object).Elem().Name() + "List", "apiVersion": apiVersionOf(object),
		"metadata": map[string]any{"resourceVersion": "1"}, "items": []any{object, object},
	}
}

func apiVersionOf(object client.Object) string {
	switch object.(type) {
	case *apisv1alpha1.APIExportEndpointSlice:
		return apisv1alpha1.SchemeGroupVersion.String()
	case *apisv1alpha2.APIBinding:
		return apisv1alpha2.SchemeGroupVersion.String()
	}
	return ipamv1alpha1.GroupVersion.String()
}

// fill sets every string inside a value to the hostile text. It makes every pointer, list and map non-empty.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(hostile)
	case reflect.Pointer:
		if v.Type().Elem() == reflect.TypeFor[metav1.Time]() {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Type().Field(i).Name != "TypeMeta" {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		item := reflect.New(v.Type().Elem()).Elem()
		fill(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(hostile).Convert(v.Type().Key()), item)
	default: // numbers and booleans stay as they are
	}
}
