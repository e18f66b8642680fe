// Command image builds the OCI image of ipam-controller for Linux on amd64 and arm64 without a
// container engine, and pushes it. The same commit gives the same digest, on any machine with the
// same version of Go. It runs from the root of the repository.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("write image build or image push")
	}
	flags := flag.NewFlagSet("image "+args[0], flag.ContinueOnError)
	file := flags.String("file", "", "The image, an OCI layout in a tar archive")
	tag := flags.String("tag", "", "Name of the image, such as registry.example/ipam-controller:v1.0.0")
	epoch := flags.Int64("epoch", 0, "Time of everything in the image, in seconds since 1970")
	boms := flags.String("boms", "", "Directory for the SBOM of each platform; empty writes none")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	named, err := name.NewTag(*tag)
	if err != nil {
		return fmt.Errorf("--tag: %w", err)
	}
	switch args[0] {
	case "build":
		from := source{
			Package: "./cmd/ipam-controller", Variable: "github.com/kcp-ipam/ipam/internal/build.version",
			Tag: named, Time: time.Unix(*epoch, 0).UTC(), BOMs: *boms,
		}
		digest, err := from.write(ctx, *file)
		if err == nil {
			fmt.Fprintln(out, digest)
		}
		return err
	case "push":
		digest, err := push(ctx, *file, named)
		if err == nil {
			fmt.Fprintln(out, digest)
		}
		return err
	default:
		return fmt.Errorf("there is no image %s: write build or push", args[0])
	}
}
