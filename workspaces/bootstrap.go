package workspaces

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	apisv1alpha2 "github.com/kcp-dev/sdk/apis/apis/v1alpha2"
	"github.com/kcp-dev/sdk/apis/third_party/conditions/util/conditions"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/config"
)

const (
	// DefaultWorkspace is the platform workspace if nothing else is said.
	DefaultWorkspace = "root:ipam"

	// ExportName is the name of the APIExport, and of its endpoint slice.
	ExportName = ipamv1alpha1.GroupName
)

// Options say what Bootstrap makes.
type Options struct {
	// Workspace is the path of the platform workspace. Default: root:ipam.
	Workspace string
	// Schemas are the APIResourceSchemas offered to tenants, and APIExport the
	// manifest that names them. Default: those of package config.
	Schemas   fs.FS
	APIExport []byte
	// Progress is told each step before it is taken. Default: a function that does nothing.
	Progress func(step string)
}

// Bootstrap makes the platform workspace, or brings it up to date. cfg reaches
// any workspace of the kcp, as a user that can create workspaces and all that is in the manifests. It returns when
// tenants can bind.
func Bootstrap(ctx context.Context, cfg *rest.Config, opts Options) error {
	if opts.Workspace == "" {
		opts.Workspace = DefaultWorkspace
	}
	if opts.Schemas == nil {
		opts.Schemas = config.Schemas()
	}
	if opts.APIExport == nil {
		opts.APIExport = config.APIExport()
	}
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	opts.Progress("making the platform workspace " + opts.Workspace)
	cluster, err := EnsureWorkspace(ctx, cfg, opts.Workspace)
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", opts.Workspace, err)
	}
	c, err := NewClient(At(cfg, opts.Workspace))
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", opts.Workspace, err)
	}
	p := &platform{Client: c, cluster: cluster, Options: opts}
	err = p.take(ctx,
		// Policies come first: nothing may be served before the policies can refuse it.
		step{"applying the admission policies", p.applyPolicies},
		step{"applying the resource definitions", p.applyDefinitions},
		step{"applying the schemas for tenants", p.applySchemas},
		step{"granting access to tenants and to the controller", p.applyAccess},
		step{"publishing the classes", p.publishClasses},
		step{"applying the API export", p.applyExport},
	)
	if err != nil {
		return fmt.Errorf("bootstrap %s: %w", opts.Workspace, err)
	}
	return nil
}

// platform is the platform workspace while it is being made.
type platform struct {
	client.Client
	Options
	cluster logicalcluster.Name

	// classesIdentity is empty where the server can't publish classes.
	classesIdentity string
}

// step is one step in making a platform.
type step struct {
	name string
	do   func(context.Context) error
}

// take takes the steps in order, and reports each one before.
func (p *platform) take(ctx context.Context, steps ...step) error {
	for _, s := range steps {
		p.Progress(s.name)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (p *platform) applyFolder(ctx context.Context, folder fs.FS) ([]*unstructured.Unstructured, error) {
	objects, err := read(folder, strings.NewReplacer(config.PlatformCluster, p.cluster.String()))
	if err != nil {
		return nil, err
	}
	return objects, apply(ctx, p, objects...)
}

func (p *platform) applyDefinitions(ctx context.Context) error {
	definitions, err := p.applyFolder(ctx, config.CRDs())
	if err != nil {
		return err
	}
	for _, definition := range definitions {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		err := await(ctx, fmt.Sprintf("%s to be established", definition.GetName()), func(ctx context.Context) error {
			if err := p.Get(ctx, client.ObjectKeyFromObject(definition), crd); err != nil {
				return err
			}
			if !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) {
				return fmt.Errorf("its conditions are %+v", crd.Status.Conditions)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *platform) applyPolicies(ctx context.Context) error {
	_, err := p.applyFolder(ctx, config.Policies())
	return err
}

// applySchemas adds new schemas. A schema can't be changed, so it is named after its content. Old schemas stay, for
// workspaces that have not followed yet.
func (p *platform) applySchemas(ctx context.Context) error {
	_, err := p.applyFolder(ctx, p.Schemas)
	return err
}

// applyAccess grants what the manifests say, to tenants and to the controller.
func (p *platform) applyAccess(ctx context.Context) error {
	_, err := p.applyFolder(ctx, config.PlatformRBAC())
	return err
}

// applyExport comes last: with it tenants can bind, and bound ones get new schemas.
func (p *platform) applyExport(ctx context.Context) error {
	objects, err := decode(p.APIExport, strings.NewReplacer(config.ClassesIdentity, p.classesIdentity))
	if err != nil {
		return err
	}
	if p.classesIdentity == "" {
		if err := withoutClasses(objects[0]); err != nil {
			return err
		}
	}
	if err := apply(ctx, p, objects...); err != nil {
		return err
	}
	export := &apisv1alpha2.APIExport{}
	return await(ctx, "the identity of the API export", func(ctx context.Context) error {
		if err := p.Get(ctx, client.ObjectKeyFromObject(objects[0]), export); err != nil {
			return err
		}
		if !conditions.IsTrue(export, apisv1alpha2.APIExportIdentityValid) {
			return fmt.Errorf("it has none%s", unmet(export.Status.Conditions))
		}
		return nil
	})
}
