package v1alpha1

import "testing"

// What people read in the columns of kubectl get.
func TestColumns(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		LengthsColumn(nil):                                                   "any",
		LengthsColumn(&PrefixLengthRange{32, 32}):                            "/32",
		LengthsColumn(&PrefixLengthRange{24, 28}):                            "/24–/28",
		ClassesColumn(nil):                                                   "",
		ClassesColumn([]string{"edge", "internal"}):                          "edge,internal",
		ClassesColumn([]string{"a", "b", "c", "d", "e"}):                     "a,b,c,+2",
		UtilizationColumn(0):                                                 "0%",
		UtilizationColumn(0.0001):                                            "<0.1%",
		UtilizationColumn(37.54):                                             "37.5%",
		UtilizationColumn(99.9999):                                           ">99.9%",
		UtilizationColumn(100):                                               "100%",
		RequestedColumn(IPClaimSpec{PrefixLength: 26}):                       "/26",
		RequestedColumn(IPClaimSpec{Address: "192.0.2.7", PrefixLength: 32}): "192.0.2.7",
	} {
		if got != want {
			t.Errorf("the column shows %q, want %q", got, want)
		}
	}
}
