// Package toolstub answers tool calls without running the tools: with recorded responses,
// injected errors and latencies, or by a model. Tests and eval sets have stubs under tools:.
//
//	set, ds := toolstub.Build(n.Get("tools"), config.Tools, names)
//	run := set.Begin(&toolstub.RunOptions{Wait: wait})   // the counters of one test or case
//	host := runtime.NewHost(st, &runtime.Options{RunTool: run.RunTool})
//
// A [Set] is what a document declares. A [Run] has the counters, random numbers and
// simulated resources for one conversation, so that parallel ones do not share any.
//
// The files:
//
//	config.go     fields in stubs and simulations, their schema and reference
//	check.go      the checks of stubs and simulations
//	set.go        a document's stubs
//	run.go        the stub that answers a call, and its answer
//	simulate.go   answers by a model
//	prompt.go     the prompts
//
// The rules are those in adk-python tools/environment_simulation, under shorter names.
package toolstub
