// Command claim claims a block of a class, and prints it. Called again, it prints the same block.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

func main() {
	timeout := flag.Duration("timeout", time.Minute, "how long to wait for the block")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("usage: claim [-timeout 1m] CLASS NAME")
	}
	if err := claim(*timeout, flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err) // if the claim waits, why
	}
}

func claim(timeout time.Duration, class, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	cfg, err := config.GetConfig() // KUBECONFIG, the service account of a pod, or ~/.kube/config
	if err != nil {
		return err
	}
	cfg.Timeout = timeout // also of requests that have no context, such as those of discovery
	scheme := runtime.NewScheme()
	if err := ipamv1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	allocation, err := ipamclient.Claim(ctx, c, &ipamv1alpha1.IPClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       ipamv1alpha1.IPClaimSpec{ClassName: class},
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, allocation.Prefix)
	return err
}
