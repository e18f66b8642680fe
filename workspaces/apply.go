package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	apisv1alpha1 "github.com/kcp-dev/sdk/apis/apis/v1alpha1"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	cachev1alpha1 "github.com/kcp-dev/sdk/apis/cache/v1alpha1"
	corev1alpha1 "github.com/kcp-dev/sdk/apis/core/v1alpha1"
	tenancyv1alpha1 "github.com/kcp-dev/sdk/apis/tenancy/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/apis/ipam/v1controller1"
)

// fieldOwner is the manager of the fields this package writes.
const fieldOwner = client.FieldOwner("kcp-ipam")

// NewScheme returns a scheme with the kinds of IPAM, of Kubernetes and of kcp.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme,
		apisv1alpha1.AddToScheme, apisv1alpha2.AddToScheme, cachev1alpha1.AddToScheme,
		corev1alpha1.AddToScheme, tenancyv1alpha1.AddToScheme,
		ipamv1alpha1.AddToScheme, v1controller1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// NewClient returns a client with the kinds of [NewScheme]. It reads live, has no rate limit of its own, and drops
// the server's warnings.
func NewClient(cfg *rest.Config) (client.WithWatch, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.WarningHandler = -1, rest.NoWarnings{}
	return client.NewWithWatch(cfg, client.Options{Scheme: NewScheme()})
}

// Apply applies the manifests in a folder to the workspace or the cluster that cfg reaches, in order of their
// names.
func Apply(ctx context.Context, cfg *rest.Config, folder fs.FS) error {
	objects, err := read(folder, strings.NewReplacer())
	if err != nil {
		return fmt.Errorf("apply to %s: %w", cfg.Host, err)
	}
	c, err := NewClient(cfg)
	if err != nil {
		return fmt.Errorf("apply to %s: %w", cfg.Host, err)
	}
	if err := apply(ctx, c, objects...); err != nil {
		return fmt.Errorf("apply to %s: %w", cfg.Host, err)
	}
	return nil
}

// apply writes objects by server-side apply, in their order. It waits for a kind that is not served yet, and for a
// namespace that does not exist yet.
func apply(ctx context.Context, c client.Client, objects ...*unstructured.Unstructured) error {
	for _, object := range objects {
		what := fmt.Sprintf("%s %s to be applied", object.GetKind(), object.GetName())
		err := await(ctx, what, func(ctx context.Context) error {
			// Apply writes the answer into its argument, which a second try must not send.
			return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), fieldOwner, client.ForceOwnership)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// read returns the objects in the YAML files of a folder, in order of their names.
// fill replaces what is known only on a running kcp.
func read(folder fs.FS, fill *strings.Replacer) ([]*unstructured.Unstructured, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("the folder of manifests is empty")
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		data, err := fs.ReadFile(folder, file)
		if err != nil {
			return nil, err
		}
		found, err := decode(data, fill)
		if err != nil {
			return nil, fmt.Errorf("manifest %s: %w", file, err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

// decode returns the objects in a YAML file.
func decode(data []byte, fill *strings.Replacer) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(fill.Replace(string(data))), len(data))
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
