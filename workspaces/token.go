package workspaces

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

// TokenConfig returns the access of the controller's service account to the cluster or the workspace that cfg
// reaches, with one token. The token has this lifetime, unless the server's limit makes it another one. Nothing
// renews it. The access has nothing of cfg's own identity. cfg needs to create tokens of that service account;
// TokenConfig waits until the account exists.
func TokenConfig(ctx context.Context, cfg *rest.Config, lifetime time.Duration) (*rest.Config, error) {
	var granted authenticationv1.TokenRequestStatus
	what := fmt.Sprintf("%s to grant a token to the service account %s/%s",
		cfg.Host, ControllerNamespace, ControllerAccount)
	err := await(ctx, what, func(ctx context.Context) (err error) {
		granted, err = RequestToken(ctx, cfg, lifetime)
		return err
	})
	if err != nil {
		return nil, err
	}
	controller := rest.AnonymousClientConfig(cfg)
	controller.BearerToken = granted.Token
	return controller, nil
}

// RequestToken asks the cluster or the workspace that cfg reaches, once, for a token of the controller's service
// account. The token has this lifetime, unless the server's limit makes it another one. cfg needs to create tokens of
// that service account.
func RequestToken(
	ctx context.Context, cfg *rest.Config, lifetime time.Duration,
) (authenticationv1.TokenRequestStatus, error) {
	request := &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(lifetime / time.Second))},
	}
	c, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return request.Status, err
	}
	granted, err := c.ServiceAccounts(ControllerNamespace).CreateToken(ctx, ControllerAccount, request,
		metav1.CreateOptions{})
	if err != nil {
		return request.Status, err
	}
	return granted.Status, nil
}
