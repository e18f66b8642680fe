package framework

import (
	"cmp"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/test/must"
)

// HeldBack is a CREATE that the server has routed while its body is held back.
type HeldBack struct {
	// Text is the body.
	Text   []byte
	body   *io.PipeWriter
	answer chan error
}

// HoldBack begins a CREATE, and returns once the server starts to read the body, and so has routed the request.
func HoldBack(t testing.TB, access *rest.Config, resource, kind string, object client.Object) *HeldBack {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(ipamv1alpha1.GroupVersion.WithKind(kind))
	text := must.Get(json.Marshal(object))(t)
	read, write := io.Pipe()
	h := &HeldBack{body: write, Text: text, answer: make(chan error, 1)}
	wanted := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got100Continue: func() { close(wanted) }})
	url := strings.TrimSuffix(access.Host, "/") + "/apis/" + ipamv1alpha1.GroupVersion.String() + "/" + resource
	request := must.Get(http.NewRequestWithContext(ctx, http.MethodPost, url, read))(t)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Expect", "100-continue")
	secured := must.Get(rest.TLSConfigFor(access))(t)
	transport := &http.Transport{TLSClientConfig: secured, ExpectContinueTimeout: time.Minute, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	t.Cleanup(transport.CloseIdleConnections)
	trip := must.Get(rest.HTTPWrappersForConfig(access, transport))(t)
	go func() {
		response, err := trip.RoundTrip(request)
		if err == nil {
			defer func() { _ = response.Body.Close() }()
			says, _ := io.ReadAll(response.Body)
			if response.StatusCode != http.StatusCreated {
				err = fmt.Errorf("the server answers %s: %s", response.Status, says)
			}
		}
		h.answer <- err
	}()
	select {
	case <-wanted:
	case err := <-h.answer:
		t.Fatalf("the CREATE ended before its body was read: %v", err)
	case <-t.Context().Done():
		t.Fatal(errors.New("the server never wanted the body"))
	}
	return h
}

// Send sends the body, and returns nil if the object is stored.
func (h *HeldBack) Send() error {
	if _, err := h.body.Write(h.Text); err != nil {
		return err
	}
	return cmp.Or(h.body.Close(), <-h.answer)
}

// End sends the body, and fails the test unless the object is stored.
func (h *HeldBack) End(t testing.TB) {
	t.Helper()
	must.Do(t, h.Send())
}
