// Package evalrun runs eval sets on an app: it finds the sets of an app's folder, runs
// each case on the app, scores its turns with package eval, and stores the results as
// files of ADK.
//
//	jobs, err := evalrun.Plan(dir, selections, options)   // sets, cases and metrics
//	runner.Run(ctx, jobs, …)                              // each case in its own store
//	journal.Finish()                                      // the result file of a set
//
// A case runs in a session of its own, in a store of its own: cases share no state, so
// they may run in parallel. Models and tools are those of the app. A case that fails to
// run fails alone. Results are appended to a [Journal] as they come, so an interrupted
// run can continue.
package evalrun
