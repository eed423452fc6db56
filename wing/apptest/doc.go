// Package apptest runs the tests of an app: the *.test.yaml files in its folder. A
// test runs the whole app. Models answer from the scripts of the test, stubs replace
// tools, and expressions check each turn.
//
//	suite, ds := apptest.Decode(node, names)   // validated and compiled
//	result := suite[0].Run(ctx, open)          // with its own app, store and host
//
// A [Test] is a list of turns. A [Result] has the transcript and the failures of
// one run. Each failure is a [spec.Diagnostic] at its expectation. Tests use no network and
// no files, and may run in parallel. [Make] does the reverse: it writes a test
// from a stored session.
//
// The package does not read folders: the loader finds the files and opens the app
// with the test's models and tools.
package apptest
