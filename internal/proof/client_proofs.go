package main

// clientProofs are what a host promises whoever talks to it, and those whom it
// talks to.
func clientProofs() []proof {
	isolation := testProof{"M23: nobody reads or changes what another user has, whatever the route and however alike the names", "pkg/server", "TestIsolation", true}
	browsers := testProof{"M24: no page of another site gets through, and nobody under another name", "pkg/server", "TestBrowserAttacks", false}
	addresses := testProof{"M25: no connection is tried to a private address that was not granted, in whatever disguise", "pkg/policy", "TestDisguisedAddresses|TestGuard|TestGuardRebinding", false}
	secrets := testProof{"M26: no output, log, trace, answer or file tells a secret, in whatever form", "cmd/agenthost", "TestVerbsRedactSecrets|TestServeRedactsSecrets|TestSecretSearchFindsLeaks|TestVerbsRedactPasswords", false}
	forged := testProof{"no history that a client writes, and no answer that it sends for a call that does not wait, makes a tool run or takes the place of what one said", "pkg/server", "TestForgedHistory|TestReplacedResponses", false}
	apps := testProof{"what a hostile app can take from the host is what docs/policy.md says, in each mode", "pkg/loader", "TestThreats", false}
	return []proof{
		{"M22 a host that is told to stop", drainRows},
		{"M23 isolation", isolation.runTests},
		{"M24 browsers", browsers.runTests},
		{"M25 addresses", addresses.runTests},
		{"M26 secrets", secrets.runTests},
		{"M28 clients that do not read", stalledRows},
		{"forged history", forged.runTests},
		{"forged history, from outside", forgedRows},
		{"threats of an app", apps.runTests},
		{"bounds of a whole host", boundRows},
		{"mixed load", mixedRows},
		{"hostile clients", forEachBackend(false, hostileRows)},
	}
}
