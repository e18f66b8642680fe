// Command member runs one member of an etcd cluster until its standard input
// ends. Its argument is a configuration file of etcd.
package main

import (
	"fmt"
	"io"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "member:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	config, err := embed.ConfigFromFile(file)
	if err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	defer server.Close()
	parent := make(chan struct{})
	go func() {
		defer close(parent)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	select {
	case err := <-server.Err():
		return err
	case <-parent:
		return nil
	}
}
