// Package eval reads eval sets of ADK and scores turns of agents by ADK's metrics. It has
// no agents, models or storage of its own: the caller runs the cases, passes what happened,
// and opens the judges. The example has the whole path: [ReadSet], [ReadConfig], [Turns] of
// the events of a run, and [Options.Evaluate].
//
// A [Set] has cases. A [Case] is a conversation, or a [Scenario] that a [Simulator] leads.
// An [Invocation] is a turn, expected or actual. A [Metric] scores the turns of a case by a
// [Criterion]; a [Measure] is a metric with its criterion. A [Judge] is a model that
// answers a prompt.
//
// The files, from the outside to the inside:
//
//	set.go, persona.go          eval sets, their turns, and prebuilt personas
//	read.go                     files of sets in all forms of ADK
//	criterion.go                criteria and test_config.json
//	result.go                   results, their files, and statuses
//	outcome.go                  the result of all runs of a case
//	scores.go, usage.go         what a metric returns, and what runs used
//	select.go                   arguments SET:case,case, and IDs
//	turns.go                    events of a session to turns
//	evaluate.go                 one case: all its metrics, notes and the final status
//	metric.go                   the list of metrics
//	trajectory.go               tool calls
//	rouge.go, porter.go         words of the final response
//	efficiency.go               counts without a threshold
//	judge.go                    samples and the vote of a judge
//	judge_match.go              final response against the expected one
//	rubric.go, prompt.go        rubrics
//	hallucination.go            sentences against their context
//	user_simulator_quality.go   messages of a simulated user
//	judge_local.go, hosted.go   metrics that ADK leaves to Vertex AI, by a judge or by it
//	generate.go                 scenarios that a model writes for an app
//	simulate.go                 messages from a scenario, injected results of tools
//	json.go, encode.go          JSON: both spellings, unknown keys, places of errors
//
// The rules are those of adk-python 2.11. Decided differences: a turn count that differs
// fails the case instead of the run, a metric that could not be evaluated denies a pass
// unless [Options] allows it, and reasons are kept in notes, which ADK ignores.
package eval
