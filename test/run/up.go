package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/kcp-ipam/ipam/config"
	"github.com/kcp-ipam/ipam/test/framework/local"
	"github.com/kcp-ipam/ipam/workspaces"
)

// run brings everything up, stays up until ctx ends, and takes it down again.
func (r *run) run(ctx context.Context) error {
	dir, err := r.folder()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	err = r.up(ctx, dir)
	if err == nil && !r.once {
		err = r.stay(ctx)
	}
	if ctx.Err() != nil {
		err = nil // the user has asked for the end
	}
	r.say("stopping")
	return errors.Join(err, r.down())
}

// folder returns the folder in which the run keeps everything.
func (r *run) folder() (string, error) {
	if r.dir != "" {
		return filepath.Abs(r.dir)
	}
	root, err := local.ModuleRoot()
	if r.standalone {
		return filepath.Join(root, ".run-standalone"), err
	}
	return filepath.Join(root, ".run"), err
}

// newStage returns the ground of the run. It is not started yet.
func (r *run) newStage(ctx context.Context, dir string) (stage, error) {
	if r.standalone {
		cluster, err := local.NewKubernetes(ctx, filepath.Join(dir, "kubernetes"))
		return onKubernetes{cluster}, err
	}
	kcp, err := local.NewKCP(ctx, filepath.Join(dir, "kcp"))
	return onKCP{kcp}, err
}

// up starts everything and makes the tenants' claims. The controller is built meanwhile, which takes as long as the
// start of a server, and minutes on a machine that has built nothing yet.
func (r *run) up(ctx context.Context, dir string) error {
	aside := buildAside(ctx, dir)
	defer aside.stop()
	made, err := r.newStage(ctx, dir)
	if err != nil {
		return err
	}
	r.stage = made
	r.say("starting %s, log in %s", r.stage.announce(), r.stage.Log())
	if err := r.stage.Start(ctx); err != nil {
		return err
	}
	admin, err := r.stage.Admin()
	if err != nil {
		return err
	}
	// kcp has a new token after each start: the user's shells need it from now on.
	if err := r.stage.writeKubeconfig(ctx, filepath.Join(dir, kubeconfigName), admin); err != nil {
		return err
	}
	if r.controller, err = r.prepare(ctx, admin, dir, aside); err != nil {
		return err
	}
	r.say("starting the controller: log in %s", r.controller.Log())
	if err := r.controller.Start(ctx); err != nil {
		return err
	}
	if err := r.claim(ctx, admin, filepath.Join(dir, "samples-made")); err != nil {
		return err
	}
	if !r.once {
		fmt.Fprint(r.out, r.stage.hints(filepath.Join(dir, kubeconfigName)))
	}
	return nil
}

// stay returns when ctx ends, or when the server or the controller ends, which is an error.
func (r *run) stay(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-r.stage.Ended():
		return fmt.Errorf("the server has ended by itself, see %s", r.stage.Log())
	case <-r.controller.Ended():
		return errors.New("the controller has ended by itself")
	}
}

// down stops what was started, in good order.
func (r *run) down() error {
	var errs []error
	if r.controller != nil {
		errs = append(errs, r.controller.Stop())
	}
	if r.stage != nil {
		errs = append(errs, r.stage.Stop())
	}
	return errors.Join(errs...)
}

// aside is a build of the controller that leaves the processors to all others.
type aside struct {
	cancel context.CancelFunc
	built  chan error // how it has ended, once, and then closed
}

// buildAside begins to build the controller. The server is needed first. While that is built and starts, the build
// gets only processor time that is free.
func buildAside(ctx context.Context, dir string) aside {
	ctx, cancel := context.WithCancel(ctx)
	a := aside{cancel: cancel, built: make(chan error, 1)}
	go func() {
		defer close(a.built)
		a.built <- local.BuildAside(ctx, controllerPackage, binary(dir))
	}()
	return a
}

// stop cancels the build, and returns when it has ended.
func (a aside) stop() {
	a.cancel()
	for range a.built {
	}
}

const controllerPackage = "./cmd/ipam-controller"

// built returns when the controller is built. The run waits only for that now, so the rest of the build gets normal
// priority. With low priority, seconds of work would take minutes on a busy machine.
func (r *run) built(ctx context.Context, aside aside, dir string) error {
	select {
	case err := <-aside.built:
		return err
	default:
	}
	r.say("waiting for the build of the controller")
	aside.stop()
	return local.Build(ctx, controllerPackage, binary(dir))
}

// binary returns the file of the controller in the folder of a run.
func binary(dir string) string { return filepath.Join(dir, "ipam-controller") }

// prepare makes what the controller needs, and returns the controller once it is built.
func (r *run) prepare(ctx context.Context, admin *rest.Config, dir string, aside aside) (*local.Controller, error) {
	opts, err := r.stage.prepare(ctx, admin, func(step string) { r.say("%s", step) })
	if err != nil {
		return nil, err
	}
	opts.Dir, opts.Binary = filepath.Join(dir, "controller"), binary(dir)
	if err := r.built(ctx, aside, dir); err != nil {
		return nil, err
	}
	return local.NewController(ctx, opts)
}

// claim makes the samples in the first run, and lists all claims in their present state.
func (r *run) claim(ctx context.Context, admin *rest.Config, made string) error {
	tenants := r.stage.tenants(admin)
	if _, err := os.Stat(made); err != nil || r.once {
		if err := r.samples(ctx, admin, tenants); err != nil {
			return err
		}
		if err := os.WriteFile(made, nil, 0o600); err != nil {
			return err
		}
	}
	table, err := claimTable(ctx, tenants)
	if err := r.tolerate(ctx, err); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "\n%s\n", table)
	return nil
}

// samples makes the samples, and waits until the claims in them are bound. Users may change and delete them: a later run makes them
// again only with --once, which fails if a sample cannot be applied or bound.
func (r *run) samples(ctx context.Context, admin *rest.Config, tenants []tenant) error {
	r.say("applying the classes and pools of config/samples/platform")
	if err := r.tolerate(ctx, workspaces.Apply(ctx, r.stage.platform(admin), config.PlatformSamples())); err != nil {
		return err
	}
	for _, tenant := range tenants {
		r.say("creating the claim of config/samples/tenant in %s", tenant.name)
		if err := r.tolerate(ctx, tenant.sample(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// tolerate reports what is wrong with a sample, and lets the run go on. With --once, or while the run is being
// stopped, it returns the error.
func (r *run) tolerate(ctx context.Context, err error) error {
	if r.once || err == nil || ctx.Err() != nil {
		return err
	}
	r.say("going on without it: %v", err)
	return nil
}
