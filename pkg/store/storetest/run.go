package storetest

import (
	"testing"

	"agenthost/pkg/store"
)

// Run runs all tests as subtests.
func (su *Suite) Run(t *testing.T) {
	sessions, leases := su.sessionTests(), leaseSuite{su}.listTests()
	for name := range su.Impossible {
		if sessions[name] == nil && leases[name] == nil {
			t.Errorf("unknown test %s in Impossible", name)
		}
	}
	su.runTests(t, sessions)
	su.runTests(t, leases)
	b, err := su.Create(t)(t.Context(), &store.Options{Owner: store.NewOwner()})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Sessions.Close(); err != nil {
		t.Error(err)
	}
	if b.Memories != nil {
		su.runTests(t, memorySuite{su}.listTests())
	}
	if b.Revisions != nil {
		su.runTests(t, su.revisionTests())
	}
	if b.Results != nil {
		su.runTests(t, su.resultTests())
	}
	if b.Outcomes != nil {
		su.runTests(t, su.outcomeTests())
		su.runTests(t, outcomeDaySuite{su}.listTests())
	}
	if b.Rollouts != nil {
		su.runTests(t, su.rolloutTests())
	}
	if b.Grants != nil {
		su.runTests(t, map[string]func(*testing.T){"Grants": su.testGrants})
	}
}

func (su *Suite) sessionTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"AppendVisibility":             su.testAppendVisibility,
		"AppendAssignsIDAndTime":       su.testAppendAssignsIDAndTime,
		"AppendScopes":                 su.testAppendScopes,
		"CreateState":                  su.testCreateState,
		"StateValueRoundTrip":          su.testStateValueRoundTrip,
		"StateValueInvalid":            su.testStateValueInvalid,
		"AppendStale":                  su.testAppendStale,
		"AppendIdempotent":             su.testAppendIdempotent,
		"AppendRetryAfterLostResponse": su.testAppendRetryAfterLostResponse,
		"AppendAll":                    su.testAppendAll,
		"AppendAllRejected":            su.testAppendAllRejected,
		"AppendPartialEvent":           su.testAppendPartialEvent,
		"AppendMissingSession":         su.testAppendMissingSession,
		"AppendCopiesMaps":             su.testAppendCopiesMaps,
		"EventRoundTrip":               su.testEventRoundTrip,
		"ConcurrentSessions":           su.testConcurrentSessions,
		"ConcurrentSharedStateWrites":  su.testConcurrentSharedStateWrites,
		"ConcurrentSessionWrites":      su.testConcurrentSessionWrites,
		"ConcurrentCreateDeleteRead":   su.testConcurrentCreateDeleteRead,
		"GetFilters":                   su.testGetFilters,
		"AppendAfterFilteredGet":       su.testAppendAfterFilteredGet,
		"HistoryShared":                su.testHistoryShared,
		"GetCopiesState":               su.testGetCopiesState,
		"DeleteAndCreateAgain":         su.testDeleteAndCreateAgain,
		"ListOrder":                    su.testListOrder,
		"ListBatches":                  su.testListBatches,
		"AppendAfterEviction":          su.testAppendAfterEviction,
		"ValidWindows":                 su.testValidWindows,
		"Initial":                      su.testInitial,
		"StateLimit":                   su.testStateLimit,
		"StateLimitCreate":             su.testStateLimitCreate,
		"StateLimitUpdates":            su.testStateLimitUpdates,
		"StateLimitShrink":             su.testStateLimitShrink,
		"EventLimit":                   su.testEventLimit,
		"EventValues":                  su.testEventValues,
		"SessionLimit":                 su.testSessionLimit,
		"StateLimitConcurrent":         su.testStateLimitConcurrent,
		"PagesMatchList":               su.testPagesMatchList,
		"PageInvalid":                  su.testPageInvalid,
		"RandomOperations":             su.testRandomOperations,
		"Prune":                        su.testPrune,
		"PruneActiveSessions":          su.testPruneActiveSessions,
		"PruneDryRun":                  su.testPruneDryRun,
		"PruneOneStore":                su.testPruneOneStore,
		"SweepAfterClockJump":          su.testSweepAfterClockJump,
		"PruneEarlierClock":            su.testPruneEarlierClock,
		"StoreClosed":                  su.testStoreClosed,
		"ContextCancelled":             su.testContextCancelled,
		"InvalidKeys":                  su.testInvalidKeys,
		"CreateSessionID":              su.testCreateSessionID,
		"IDsCompareBytewise":           su.testIDsCompareBytewise,
		"UpdateVerbs":                  su.testUpdateVerbs,
		"UpdatesInOneEvent":            su.testUpdatesInOneEvent,
		"UpdateRejected":               su.testUpdateRejected,
		"UpdatesConcurrent":            su.testUpdatesConcurrent,
		"UpdateRetry":                  su.testUpdateRetry,
		"UpdateStale":                  su.testUpdateStale,
	}
}

func (su *Suite) revisionTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"RevisionRoundTrip": su.testRevisionRoundTrip,
		"RevisionOrder":     su.testRevisionOrder,
		"RevisionsClosed":   su.testRevisionsClosed,
	}
}

func (su *Suite) outcomeTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"OutcomeRoundTrip": su.testOutcomeRoundTrip,
		"OutcomeRejected":  su.testOutcomeRejected,
		"OutcomeList":      su.testOutcomeList,
		"OutcomeDamaged":   su.testOutcomeDamaged,
		"Feedback":         su.testFeedback,
		"FeedbackInvalid":  su.testFeedbackInvalid,
		"OutcomesClosed":   su.testOutcomesClosed,
	}
}

func (su *Suite) rolloutTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"RolloutRoundTrip":  su.testRolloutRoundTrip,
		"RolloutStale":      su.testRolloutStale,
		"RolloutConcurrent": su.testRolloutConcurrent,
		"RolloutInvalid":    su.testRolloutInvalid,
		"RolloutsClosed":    su.testRolloutsClosed,
	}
}

func (su *Suite) resultTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"ResultRoundTrip": su.testResultRoundTrip,
		"ResultOrder":     su.testResultOrder,
		"ResultInvalid":   su.testResultInvalid,
		"UnstorableNames": su.testUnstorableNames,
		"ResultsClosed":   su.testResultsClosed,
	}
}
