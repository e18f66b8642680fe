package patch

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// halves are an object's JSON without its status, and the status.
type halves struct {
	main, status map[string]any
}

// split takes an object apart. What the server keeps of who set which field is
// left out: it is large, and not ours. Lists whose order means nothing are sorted.
func split(obj client.Object) (halves, error) {
	obj = copyOf(obj)
	obj.SetManagedFields(nil)
	slices.Sort(obj.GetFinalizers())
	main, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return halves{}, err
	}
	status, _ := main["status"].(map[string]any)
	delete(main, "status")
	sortConditions(status)
	return halves{main: main, status: status}, nil
}

// sortConditions puts the conditions of a status in the order of their types.
func sortConditions(status map[string]any) {
	conditions, _ := status[conditionsField].([]any)
	slices.SortStableFunc(conditions, func(a, b any) int { return cmp.Compare(typeOf(a), typeOf(b)) })
}

// diff is what a JSON merge patch has to say to make before like after: nothing
// when they are alike.
func diff(before, after map[string]any) map[string]any {
	changes := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			changes[key] = nil
		}
	}
	for key, wanted := range after {
		if equality.Semantic.DeepEqual(before[key], wanted) {
			continue
		}
		oldFields, isObject := before[key].(map[string]any)
		fields, staysObject := wanted.(map[string]any)
		if isObject && staysObject {
			wanted = diff(oldFields, fields)
		}
		changes[key] = wanted
	}
	return changes
}
