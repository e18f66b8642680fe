// Command claim claims a block of a class, and prints it. Called again, it prints the same block.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
	"github.com/kcp-ipam/ipam/ipamclient"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: claim CLASS NAME")
	}
	if err := claim(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func claim(ctx context.Context, class, name string) error {
	cfg, err := config.GetConfig() // KUBECONFIG, the service account of a pod, or ~/.kube/config
	if err != nil {
		return err
	}
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
