package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	ipamv1alpha1 "github.com/kcp-ipam/ipam/apis/ipam/v1alpha1"
)

// advised adds to the error about a claim what the caller can do about it: the name that was
// meant, if one that is listed is near, and how to correct a claim that was created.
func (r *request) advised(ctx context.Context, c client.Reader, object client.Object, err error) error {
	failed, isFailure := errors.AsType[*failure](err)
	claim, isClaim := object.(*ipamv1alpha1.IPClaim)
	if !isFailure || !isClaim || failed.reason == "" {
		return err
	}
	if near := meant(ctx, c, claim, failed.reason); near != "" {
		failed.hint = fmt.Sprintf("did you mean %q?", near)
	}
	if claim.UID != "" {
		failed.hint += fmt.Sprintf("\nthe claim stays: --replace with the corrected command replaces it, kubectl ipam claim release %s deletes it", argsOf(claim))
	}
	return failed
}

// meant is the class or pool whose name is nearest to the one that was not found; empty
// without a near one among those that the caller may list.
func meant(ctx context.Context, c client.Reader, claim *ipamv1alpha1.IPClaim, reason ipamv1alpha1.Reason) string {
	asked, names := claim.Spec.ClassName, namesOf(classNames)
	switch ref := claim.Spec.PoolRef; {
	case reason == ipamv1alpha1.ReasonPoolNotFound && ref != nil && ref.ProjectRef == nil:
		asked, names = ref.Name, poolNames
	case reason != ipamv1alpha1.ReasonClassNotFound:
		return ""
	}
	known, err := names(ctx, c, claim.Namespace)
	if err != nil {
		return ""
	}
	return nearest(asked, known)
}

// nearest is the known word that was probably meant: one that begins with what was typed, or
// differs from it in few letters. Empty if there is none.
func nearest(typed string, known []string) string {
	best, least := "", max(1, len(typed)/3)+1
	for _, word := range known {
		far := distance(typed, word)
		if typed != "" && strings.HasPrefix(word, typed) {
			far = 1
		}
		if far < least && word == plain(word) {
			best, least = word, far
		}
	}
	return best
}

// distance is that of Levenshtein: how many letters to insert, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
