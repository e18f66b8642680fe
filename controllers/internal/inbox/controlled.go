package inbox

import (
	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// Controlled returns the options of a controller whose queue is made before the manager starts, so that it misses nothing. fields are
// the names and values that its log has of a request.
func Controlled[R comparable](
	logger logr.Logger, queue workqueue.TypedRateLimitingInterface[R], workers int, fields func(R) []any,
) controller.TypedOptions[R] {
	return controller.TypedOptions[R]{
		MaxConcurrentReconciles: workers,
		NewQueue:                func(string, workqueue.TypedRateLimiter[R]) workqueue.TypedRateLimitingInterface[R] { return queue },
		LogConstructor: func(of *R) logr.Logger {
			if of == nil {
				return logger
			}
			return logger.WithValues(fields(*of)...)
		},
	}
}
