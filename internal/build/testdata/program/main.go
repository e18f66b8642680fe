// Command program prints its version.
package main

import (
	"fmt"

	"github.com/kcp-ipam/ipam/internal/build"
)

func main() { fmt.Println(build.Version()) }
