// Package apptest runs an app's tests: the *.test.yaml files in its folder. A
// test runs the whole app. Models answer from the test's scripts, stubs replace
// tools, and expressions check each turn.
//
//	suite, ds := apptest.OpenSuite(ctx, loader, dir) // validated and compiled
//	result := suite.Run(ctx, suite.Tests[0])         // with its own app, store and host
//
// A [Test] is a list of turns. A [Result] has one run's transcript and failures. Each
// failure is a [spec.Diagnostic] at its expectation. Tests use no network and no files,
// and may run in parallel. [Make] does the reverse: it writes a test from a stored
// session.
//
// [Files] and [Gate] are kinds for a loader: the files that check reads, and the gate
// that lets an app with passing tests be activated.
package apptest
