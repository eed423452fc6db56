package main

// clientProofs are the promises to clients and about outgoing connections.
func clientProofs() []proof {
	proofs := []proof{{"M22 graceful shutdown", drainRows}}
	for _, p := range testProofs() {
		proofs = append(proofs, proof{p.name, p.runTests})
	}
	return append(proofs, []proof{
		{"M28 stalled clients", stalledRows},
		{"forged history, from outside", forgedRows},
		{"limits of a whole host", boundRows},
		{"hostile MCP servers", mcpRows},
		{"size of answers", answerSizeRows},
		{"size of requests", requestSizeRows},
		{"mixed load", mixedRows},
		{"hostile clients", forEachBackend(false, hostileRows)},
	}...)
}

// testProofs are the promises to clients and about apps, models and servers that tests hold.
func testProofs() []testProof {
	return []testProof{
		newSeededProof("M23 isolation", "M23: no user can read or change the data of another user, on any route",
			"pkg/server", "TestIsolation"),
		newTestProof("M24 browsers", "M24: cross-site requests and unknown host names are rejected",
			"pkg/server", "TestBrowserAttacks"),
		newTestProof("M25 addresses", "M25: no connection is attempted to a private address without a grant, however the address is written",
			"internal/policy", "TestDisguisedAddresses TestGuardRefusesLoopbackNames TestGuardRebinding"),
		newTestProof("M26 secrets", "M26: no output, log, trace, response or file contains a secret in any form",
			"cmd/agenthost", "TestVerbsRedactSecrets TestServeRedactsSecrets TestSecretSearchFindsLeaks TestVerbsRedactPasswords"),
		newTestProof("forged history", "forged histories and responses to calls that are not pending neither run a tool nor replace a result",
			"pkg/server", "TestForgedHistory TestReplacedResponses"),
		newSeededProof("random histories", "no history that a session can hold makes a request that a model's service rejects",
			"internal/modeltest", "TestRandomHistories"),
		newSeededProof("random numbers", "numbers keep all their digits from a model through a tool to the events and the next request",
			"internal/modeltest", "TestRandomNumbers"),
		newTestProof("threats of an app", "a hostile app is limited as documented in docs/policy.md, in each mode",
			"pkg/loader", "TestThreatsAreRefused"),
		newSeededProof("memory of wasi files", "files of code in the wasi sandbox hold no more memory than their limit counts",
			"wing/wasi", "TestFilesHoldWhatIsCounted TestEmptiedFoldersShrink"),
		newTestProof("held memory of programs", "a program in the sandbox cannot make the kernel hold memory above its limit, in 20 ways",
			"wing/programs/sandbox", "TestHeldMemory"),
		newTestProof("escapes of programs", "a program in the sandbox reaches no file, address, process or memory outside",
			"wing/programs/sandbox", "TestEscapes"),
		newTestProof("unauthenticated paths", "without a token every path answers 401, before any redirect",
			"pkg/server", "TestUnauthenticatedPaths"),
		newTestProof("live authentication", "no one opens or resumes the live conversation of another user, and no page of another site opens one",
			"wing/live/liveweb", "TestRunLiveAuth TestRunLiveForeignHandle TestLiveForeignPages"),
		newTestProof("authorization by users", "an answer of an authorization server works once, for the user, session and call that asked; no event or log has a token",
			"wing/connection wing/connection/oauthweb", "TestConsentAnswers TestConsentOfClient TestConsentAcrossReplicas TestCallbackWithoutAuth TestCallbackWithAuth"),
		newTestProof("hostile authorization servers", "an authorization server gets no wrong token accepted, and its answers neither show a secret nor hold a call",
			"wing/connection", "TestTokenErrors TestTokenServerFailures TestTokenServerSilent TestDiscoveryRequiresIssuer TestTokenExchangeBounded"),
		newTestProof("folders of recordings", "the state of a session selects no recordings outside of their folder",
			"wing/adk/conformance", "TestReplayFolders"),
		newTestProof("terminals", "no text of a model, tool, file or session controls the terminal",
			"cmd/agenthost internal/terminal wing/chat", "TestHostileOutput TestTerminalOfCommands TestClean TestFilterRestIsBounded TestTerminalReceivesNoControls"),
		newTestProof("pages", "no text of a user, model or judge becomes a part of a page",
			"pkg/server wing/evaluation/evalreport wing/devui", "TestPage TestPageSources TestDevUIPolicy TestPageHostile"),
		newTestProof("spreadsheets", "no cell of an evaluation report is a formula",
			"wing/evaluation/evalreport", "TestFormatCell"),
		newTestProof("expanding schemas", "a JSON Schema that is small and costs much ends with its result or at a limit of steps",
			"internal/jsonschema", "TestBombsEndAtStepLimit TestBombsOfLibrary TestExpensiveSchemas TestValidateEnds"),
		newTestProof("hostile models", "an answer of a service ends at its limit, after one request, and gets no key of the host",
			"internal/modeltest wing/gemini pkg/provider", "TestHostileAnswers TestHostileAnswersControl TestGeminiLiveHostileService TestHostKeyStaysWithHostAddress TestRetryBeyondDeadline"),
	}
}
