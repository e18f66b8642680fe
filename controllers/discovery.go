package controllers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// discovery answers by itself what the provider asks an endpoint before it watches it:
// how APIBindings are served there, which no two kcp differ in. All else goes on to the
// server.
//
// The provider asks once, when it sees the endpoint's URL, and never looks at an endpoint
// again that did not answer: a shard that is away while the controller starts would not
// be served until the next start. Answered here, all that is left to fail is the list and
// the watch, and these are tried until they succeed.
type discovery struct{ next http.RoundTripper }

// everywhere is where an endpoint answers for all workspaces at once.
const everywhere = "/clusters/*"

// offers are the answers, by what follows everywhere in the path.
var offers = map[string]any{
	"/api": metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}},
	"/apis": metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"},
		Groups: []metav1.APIGroup{{
			Name:             apisv1alpha1.SchemeGroupVersion.Group,
			Versions:         []metav1.GroupVersionForDiscovery{bindingVersion},
			PreferredVersion: bindingVersion,
		}},
	},
	"/apis/" + bindingVersion.GroupVersion: metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"},
		GroupVersion: bindingVersion.GroupVersion,
		APIResources: []metav1.APIResource{{
			Name: "apibindings", SingularName: "apibinding", Kind: "APIBinding",
			Verbs: metav1.Verbs{"get", "list", "watch"},
		}},
	},
}

var bindingVersion = metav1.GroupVersionForDiscovery{
	GroupVersion: apisv1alpha1.SchemeGroupVersion.String(), Version: apisv1alpha1.SchemeGroupVersion.Version,
}

// discovered returns cfg with the answers of discovery.
func discovered(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return discovery{next: next} })
	return cfg
}

// RoundTrip implements http.RoundTripper.
func (d discovery) RoundTrip(r *http.Request) (*http.Response, error) {
	_, path, _ := strings.Cut(r.URL.Path, everywhere)
	offer, known := offers[path]
	if !known || r.Method != http.MethodGet {
		return d.next.RoundTrip(r)
	}
	body, err := json.Marshal(offer)
	if err != nil {
		return nil, fmt.Errorf("answer %s: %w", path, err)
	}
	return &http.Response{
		Status: http.StatusText(http.StatusOK), StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}, nil
}
