package main

// clientProofs are the promises to clients and about outgoing connections.
func clientProofs() []proof {
	isolation := testProof{"M23: no user can read or change the data of another user, on any route", "pkg/server", "TestIsolation", true}
	browsers := testProof{"M24: cross-site requests and unknown host names are rejected", "pkg/server", "TestBrowserAttacks", false}
	addresses := testProof{"M25: no connection is attempted to a private address without a grant, however the address is written", "internal/policy", "TestDisguisedAddresses|TestGuard|TestGuardRebinding", false}
	secrets := testProof{"M26: no output, log, trace, response or file contains a secret in any form", "cmd/agenthost", "TestVerbsRedactSecrets|TestServeRedactsSecrets|TestSecretSearchFindsLeaks|TestVerbsRedactPasswords", false}
	forged := testProof{"forged histories and responses to calls that are not pending neither run a tool nor replace a result", "pkg/server", "TestForgedHistory|TestReplacedResponses", false}
	legal := testProof{"no history that a session can hold makes a request that a model's service rejects", "pkg/provider", "TestRandomHistories", true}
	numbers := testProof{"numbers keep all their digits from a model through a tool to the events and the next request", "pkg/provider", "TestRandomNumbers", true}
	apps := testProof{"a hostile app is limited as documented in docs/policy.md, in each mode", "pkg/loader", "TestThreats", false}
	files := testProof{"files of code in the wasi sandbox hold no more memory than their limit counts", "internal/wasi", "TestFilesHoldWhatIsCounted|TestEmptiedFoldersShrink", true}
	held := testProof{"a program in the sandbox cannot make the kernel hold memory above its limit, in 20 ways", "internal/sandbox", "TestHeldMemory", false}
	return []proof{
		{"M22 graceful shutdown", drainRows},
		{"M23 isolation", isolation.runTests},
		{"M24 browsers", browsers.runTests},
		{"M25 addresses", addresses.runTests},
		{"M26 secrets", secrets.runTests},
		{"M28 stalled clients", stalledRows},
		{"forged history", forged.runTests},
		{"forged history, from outside", forgedRows},
		{"random histories", legal.runTests},
		{"random numbers", numbers.runTests},
		{"threats of an app", apps.runTests},
		{"limits of a whole host", boundRows},
		{"hostile MCP servers", mcpRows},
		{"memory of wasi files", files.runTests},
		{"held memory of programs", held.runTests},
		{"size of answers", answerSizeRows},
		{"mixed load", mixedRows},
		{"hostile clients", forEachBackend(false, hostileRows)},
	}
}
