package door

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Endpoint is where the API server reaches the door: by a URL, or by a Service.
type Endpoint struct {
	// URL is the base of the paths, without a slash at the end. Empty if there is a Service.
	URL string
	// Service is for a cluster without kcp.
	Service *Service
}

// Service names a Service of the cluster that is served.
type Service struct {
	Namespace, Name string
	Port            int32
}

// ParseURL reads the URL of an endpoint.
func ParseURL(text string) (Endpoint, error) {
	u, err := url.Parse(text)
	if err != nil {
		return Endpoint{}, err
	}
	if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Endpoint{}, errors.New("write https://HOST:PORT, with a path if you like, and nothing else")
	}
	return Endpoint{URL: strings.TrimRight(text, "/")}, nil
}

// ParseService reads NAMESPACE/NAME or NAMESPACE/NAME:PORT. The port is 443 by default.
func ParseService(text string) (Endpoint, error) {
	service, port, given := strings.Cut(text, ":")
	if !given {
		port = "443"
	}
	namespace, name, _ := strings.Cut(service, "/")
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Endpoint{}, errors.New("write NAMESPACE/NAME, or NAMESPACE/NAME:PORT")
	}
	return Endpoint{Service: &Service{Namespace: namespace, Name: name, Port: int32(number)}}, nil
}

// host returns the name that the API server checks the certificate for.
func (e Endpoint) host() string {
	if e.Service != nil {
		return fmt.Sprintf("%s.%s.svc", e.Service.Name, e.Service.Namespace)
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// base returns the URL before the paths. The URL of a Service works only inside its cluster.
func (e Endpoint) base() string {
	if e.Service != nil {
		return fmt.Sprintf("https://%s:%d", e.host(), e.Service.Port)
	}
	return e.URL
}

// at returns how the API server calls a path.
func (e Endpoint) at(path string, bundle []byte) admissionregistrationv1.WebhookClientConfig {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: bundle}
	if e.Service == nil {
		config.URL = new(e.URL + "/" + path)
		return config
	}
	config.Service = &admissionregistrationv1.ServiceReference{
		Namespace: e.Service.Namespace, Name: e.Service.Name, Path: new("/" + path), Port: new(e.Service.Port),
	}
	return config
}
