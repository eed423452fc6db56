// Package evalrun runs eval sets on an app: it finds the sets in an app's folder, runs
// each case on the app, scores its turns with package eval, and stores the results as
// ADK files.
//
//	jobs, err := evalrun.Plan(dir, selections, options)   // sets, cases and metrics
//	runner.Run(ctx, jobs, …)                              // each case in its own store
//	journal.Finish()                                      // the set's result file
//
// A case runs in its own session and its own store: cases share no state, so they may
// run in parallel. Models and tools are the app's. A case that fails to run fails alone. Results are appended to a [Journal] as they come, so an interrupted
// run can continue.
package evalrun
