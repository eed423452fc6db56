// Package toolstub answers calls of tools without running them: with recorded responses,
// injected errors and latencies, or by a model. Tests and eval sets have stubs under tools:.
//
//	set, ds := toolstub.Build(n.Get("tools"), config.Tools, names)
//	run := set.Begin(&toolstub.RunOptions{Wait: wait})   // the counters of one test or case
//	host := runtime.NewHost(st, &runtime.Options{RunTool: run.RunTool})
//
// A [Set] is what a document declares. A [Run] has the counters, random numbers and
// simulated resources of one conversation, so that parallel ones do not share any.
//
// The files:
//
//	config.go     the fields of a stub and of a simulation, their schema and reference
//	check.go      the checks of stubs and simulations
//	set.go        the stubs of a document
//	run.go        the stub that answers a call, and its answer
//	simulate.go   answers by a model
//	prompt.go     the prompts
//
// The rules are those of adk-python tools/environment_simulation, under shorter names.
package toolstub
