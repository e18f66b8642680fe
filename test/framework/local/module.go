package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ModuleRoot returns the folder of this repository, found upwards from the working
// folder.
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

// Build compiles a command of this repository, like ./cmd/ipam-controller, into a
// file, with the race detector if this program has it.
func Build(ctx context.Context, pkg, file string) error {
	root, err := ModuleRoot()
	if err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-race="+raceDetector, "-o", file, pkg)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}
