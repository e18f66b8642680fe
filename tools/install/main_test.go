package main

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The manifests name the image of the version, and no other.
func TestRender(t *testing.T) {
	for file, overlay := range overlays {
		manifest, err := render("../..", overlay, "registry.example/ipam", "v1.2.3")
		if err != nil {
			t.Fatalf("render: %v", err)
		}
		var pods int
		for document := range strings.SplitSeq(string(manifest), "\n---\n") {
			var set appsv1.StatefulSet // of a Deployment, the template is at the same place
			if err := yaml.Unmarshal([]byte(document), &set); err != nil || set.Kind != "StatefulSet" && set.Kind != "Deployment" {
				continue
			}
			for _, c := range set.Spec.Template.Spec.Containers {
				pods++
				if c.Image != "registry.example/ipam:v1.2.3" || c.ImagePullPolicy != corev1.PullIfNotPresent {
					t.Errorf("%s: the image is %s, pulled %s", file, c.Image, c.ImagePullPolicy)
				}
			}
		}
		if pods != 1 {
			t.Errorf("%s has %d containers; want 1", file, pods)
		}
	}
}

func TestRender_RefusesAnEmptyVersion(t *testing.T) {
	if _, err := render("../..", "deploy/overlays/dev", image, ""); err == nil {
		t.Error("without a version, the image of any version is installed")
	}
}

// A chart whose values would be ignored is not made.
func TestTemplate_RefusesAnOverlayWithoutAPart(t *testing.T) {
	manifest, err := render("../..", modes["embedded"], "placeholder", "placeholder")
	if err != nil {
		t.Fatalf("render: %v", err)
	}
	for _, part := range []string{"--webhook-url=", "storage: 10Gi", "kind: NetworkPolicy", "image: placeholder:placeholder", "name: kubeconfig"} {
		if _, err := template("embedded", strings.ReplaceAll(string(manifest), part, "other")); err == nil {
			t.Errorf("a chart was made of an overlay without %q; want an error", part)
		}
	}
	if _, err := template("embedded", strings.ReplaceAll(string(manifest), "--workspace", "--{{ .Other }}")); err == nil {
		t.Error("a chart was made of an overlay with a template in it; want an error")
	}
}
