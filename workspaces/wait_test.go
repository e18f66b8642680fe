package workspaces

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAwait_SaysWhatWasMissing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := await(ctx, "the moon", func(context.Context) error {
		if calls++; calls == 2 {
			cancel(errors.New("the night is over"))
		}
		return errors.New("it is cloudy")
	})
	for _, want := range []string{"the moon", "the night is over", "it is cloudy"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("await = %v; want it to say %q", err, want)
		}
	}
}

func TestAwait_EndsOnRefusal(t *testing.T) {
	t.Parallel()
	refusal := apierrors.NewBadRequest("that is no name")
	calls := 0
	err := await(t.Context(), "a name", func(context.Context) error {
		calls++
		return refusal
	})
	if !errors.Is(err, refusal) || calls != 1 {
		t.Errorf("await = %v after %d calls; want the refusal after one", err, calls)
	}
}

// For a moment, kcp may refuse a request that it is about to allow.
func TestFinal(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "apibindings"}, "ipam", errors.New("no permission to bind"))
	if final(forbidden, false) || !final(forbidden, true) {
		t.Error("a refusal of rights is final only when decisions have settled")
	}
	taken := fmt.Errorf("APIBinding ipam: %w", ErrConflict)
	if final(taken, false) || !final(taken, true) {
		t.Error("a conflict is final only when it has lasted")
	}
	if final(errors.New("connection refused"), true) || final(nil, true) {
		t.Error("what is no refusal is final")
	}
}
