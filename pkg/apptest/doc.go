// Package apptest is the tests that stand beside an app, in files *.test.yaml.
// A test talks to the whole app: models answer from the test's scripts, tools
// with what stands in for them, and what came of each turn is held against
// expressions.
//
//	suite, ds := apptest.Decode(node, names)   // checked and compiled
//	result := suite[0].Run(ctx, open)          // an app, a store and a host of its own
//
// A [Test] is a list of turns; a [Result] has the failures of one run, each a
// [spec.Diagnostic] at its expectation, and the transcript. Tests use no
// network and no file, and may run side by side. [Make] goes the other way: it
// writes the test of a stored session.
//
// The package knows no folder: the loader finds the files, and opens the app
// with what a test puts in the place of models and tools.
package apptest
