// Package fleet is a stand-in for kcp: an HTTP server with generated workspaces and claims, which serves the requests
// that the controller sends to the virtual workspace of an APIExport. It measures the cost of the controller at sizes
// that kcp cannot carry on one small machine. It proves no behaviour: it has no admission, no authorization and no
// garbage collection. Only Ask calls the controller's webhooks.
//
// It serves wildcard and single-workspace lists in pages, watches with bookmarks and initial
// events, single reads, creates, merge patches, deletes with preconditions, and discovery.
// TestLong_StandInAnswersAsKCP (test/e2e) compares its answers with those of a real kcp.
package fleet
