package main

import (
	"flag"
	"fmt"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/kcp-ipam/ipam/test/must"
)

// secretsMade returns for each Secret that cert-manager makes the names in its certificate.
func secretsMade(t *testing.T, objects []runtime.Object) map[string][]string {
	t.Helper()
	made := map[string][]string{}
	for _, object := range all[*unstructured.Unstructured](objects) {
		if object.GetKind() != "Certificate" {
			continue
		}
		secret, found, err := unstructured.NestedString(object.Object, "spec", "secretName")
		if err != nil || !found {
			t.Fatalf("%s has no secretName: %v", object.GetName(), err)
		}
		names, _, err := unstructured.NestedStringSlice(object.Object, "spec", "dnsNames")
		must.Do(t, err)
		made[secret] = names
	}
	return made
}

// A certificate is made for each Secret that a pod mounts, except the kubeconfig, which the platform's admin makes.
func TestDeployComplete_MakesEachSecret(t *testing.T) {
	objects := overlaid(t, "ha-complete")
	made := secretsMade(t, objects)
	pods := []corev1.PodSpec{one[*appsv1.Deployment](t, objects).Spec.Template.Spec, one[*appsv1.StatefulSet](t, objects).Spec.Template.Spec}
	for _, pod := range pods {
		for _, volume := range pod.Volumes {
			if volume.Secret == nil || volume.Secret.SecretName == "ipam-kubeconfig" {
				continue
			}
			if _, ok := made[volume.Secret.SecretName]; !ok {
				t.Errorf("no certificate is made for the Secret %s", volume.Secret.SecretName)
			}
		}
		if c := pod.Containers[0].SecurityContext; !*c.ReadOnlyRootFilesystem || *c.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s is not restricted: %v", pod.Containers[0].Name, c)
		}
	}
}

// The deployed etcd accepts its flags. The controller asks exactly its members, and its certificate has their names.
func TestDeployComplete_EtcdIsTheOneThatIsAsked(t *testing.T) {
	objects := overlaid(t, "ha-complete")
	set := one[*appsv1.StatefulSet](t, objects)
	var members []string
	for n := range int(*set.Spec.Replicas) {
		members = append(members, fmt.Sprintf("%s-%d.%s", set.Name, n, set.Spec.ServiceName))
	}
	deployed := one[*appsv1.Deployment](t, objects).Spec.Template
	var asked []string
	for _, server := range given(t, deployed.Spec.Containers[0].Args...).etcdServers {
		asked = append(asked, must.Get(url.Parse(server))(t).Hostname())
	}
	if !slices.Equal(asked, members) {
		t.Errorf("the controller asks %v; the members are %v", asked, members)
	}
	for _, member := range members {
		if named := secretsMade(t, objects)["ipam-etcd"]; !slices.ContainsFunc(named, func(n string) bool { ok, _ := path.Match(n, member); return ok }) {
			t.Errorf("the certificate of etcd has %v; want %s", named, member)
		}
	}

	config, flags := embed.NewConfig(), flag.NewFlagSet("etcd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	config.AddFlags(flags)
	flags.String("initial-cluster-state", "", "") // etcd adds this flag to those of the package
	var args []string
	for _, arg := range set.Spec.Template.Spec.Containers[0].Args {
		args = append(args, strings.ReplaceAll(arg, "$(POD_NAME)", "etcd-0"))
	}
	must.Do(t, flags.Parse(args))
	if config.Name != "etcd-0" || config.AutoCompactionMode != "periodic" {
		t.Errorf("etcd is %q and compacts %q", config.Name, config.AutoCompactionMode)
	}
	for _, member := range members {
		if peer := "https://" + member + ":2380"; !strings.Contains(config.InitialCluster, peer) {
			t.Errorf("the first cluster is %s; want %s in it", config.InitialCluster, peer)
		}
	}
}
