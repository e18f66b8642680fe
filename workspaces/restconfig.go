package workspaces

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The identity of the controller in the platform workspace, and the secret that
// holds its token.
const (
	ControllerNamespace   = "ipam-system"
	ControllerAccount     = "ipam-controller"
	ControllerTokenSecret = "ipam-controller-token"
)

// At returns a copy of cfg that speaks to a workspace, named by its path or by
// its logical cluster. The workspace cfg spoke to before does not matter.
func At(cfg *rest.Config, workspace string) *rest.Config {
	at := rest.CopyConfig(cfg)
	base, _, _ := strings.Cut(cfg.Host, "/clusters/")
	at.Host = strings.TrimSuffix(base, "/") + "/clusters/" + workspace
	return at
}

// ControllerConfig returns the access of the controller to a platform workspace
// that was bootstrapped: the token of its service account that kcp writes into a Secret and
// that never ends, and nothing of cfg's own identity. cfg needs to read secrets there.
func ControllerConfig(ctx context.Context, cfg *rest.Config, workspace string) (*rest.Config, error) {
	cfg = At(cfg, workspace)
	platform, err := NewClient(cfg)
	if err != nil {
		return nil, err
	}
	var token []byte
	err = await(ctx, "the token of the controller's service account at "+cfg.Host, func(ctx context.Context) error {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: ControllerNamespace, Name: ControllerTokenSecret}
		if err := platform.Get(ctx, key, secret); err != nil {
			return err
		}
		token = secret.Data[corev1.ServiceAccountTokenKey]
		if len(token) == 0 {
			return fmt.Errorf("secret %s holds no token yet", key)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	controller := rest.AnonymousClientConfig(cfg)
	controller.BearerToken = string(token)
	return controller, nil
}
