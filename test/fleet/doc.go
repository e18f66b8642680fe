// Package fleet is a stand-in for kcp: an HTTP server that speaks what the controller uses of
// the virtual workspace of an APIExport, over generated workspaces and claims. It measures what
// the controller costs at sizes that kcp cannot carry on one small machine. It decides nothing
// about behaviour: no admission, no authorization, no garbage collection. The webhooks of the
// controller are called by Ask alone.
//
// It serves wildcard and single-workspace lists in pages, watches with bookmarks and initial
// events, single reads, creates, merge patches, deletes with preconditions, and discovery.
// TestLong_StandInAnswersAsKCP (test/e2e) compares its answers with those of a real kcp.
package fleet
