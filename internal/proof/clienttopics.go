package main

// clientTopics are what a host promises whoever talks to it, and those whom it
// talks to.
func clientTopics() []topic {
	isolation := tested{"M23: nobody reads or changes what another user has, whatever the route and however alike the names", "pkg/server", "TestIsolation", true}
	browsers := tested{"M24: no page of another site gets through, and nobody under another name", "pkg/server", "TestBrowserAttacks", false}
	addresses := tested{"M25: no connection is tried to a private address that was not granted, in whatever disguise", "pkg/policy", "TestDisguisedAddresses|TestGuard|TestGuardRebinding", false}
	secrets := tested{"M26: no output, log, trace, answer or file tells a secret, in whatever form", "cmd/agenthost", "TestVerbsRedactSecrets|TestServeRedactsSecrets|TestSecretSearchFindsLeaks|TestVerbsRedactPasswords", false}
	forged := tested{"no history that a client writes, and no answer that it sends for a call that does not wait, makes a tool run or takes the place of what one said", "pkg/server", "TestForgedHistory|TestReplacedResponses", false}
	apps := tested{"what a hostile app can take from the host is what docs/policy.md says, in each mode", "pkg/loader", "TestThreats", false}
	return []topic{
		{"M22 a host that is told to stop", drainRows},
		{"M23 isolation", isolation.rows},
		{"M24 browsers", browsers.rows},
		{"M25 addresses", addresses.rows},
		{"M26 secrets", secrets.rows},
		{"M28 clients that do not read", stalledRows},
		{"forged history", forged.rows},
		{"forged history, from outside", forgedRows},
		{"threats of an app", apps.rows},
		{"bounds of a whole host", boundRows},
		{"mixed load", mixedRows},
		{"hostile clients", atEach(false, hostileRows)},
	}
}
