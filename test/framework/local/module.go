package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// ModuleRoot returns the folder of this repository, which contains the working folder.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("this program runs inside the repository only: no go.mod above the working folder")
		}
		dir = parent
	}
}

// making is held by the one caller that builds servers.
var making sync.Mutex

// built returns the path of a server that a target of the Makefile builds. If it was never built, built runs make
// first, which takes minutes and says so.
func built(program, target string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(root, ".cache", "bin", program)
	making.Lock()
	defer making.Unlock()
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	build := exec.CommandContext(context.Background(), "make", "--no-print-directory", target)
	build.Dir, build.Stdout, build.Stderr = root, os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("make %s: %w", target, err)
	}
	return binary, nil
}

// Build compiles a command of this repository, like ./cmd/ipam-controller, into a
// file, with the race detector if this program has it.
func Build(ctx context.Context, pkg, file string) error {
	return build(ctx, pkg, "go", "build", "-race="+raceDetector, "-o", file, pkg)
}

// BuildAside does the same as Build, for a command that is needed later than others. Builds of those get the
// processors first.
func BuildAside(ctx context.Context, pkg, file string) error {
	return build(ctx, pkg, "nice", "-n", "19", "go", "build", "-race="+raceDetector, "-o", file, pkg)
}

func build(ctx context.Context, pkg, program string, args ...string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, program, args...)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
