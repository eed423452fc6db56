// Package eval reads ADK eval sets and scores agents' turns by ADK's metrics. It has no
// agents, models or storage of its own: the caller runs the cases, passes what happened, and
// opens the judges. The example shows the whole path: [ReadSet], [ReadConfig], [Turns] from a
// run's events, and [Options.Evaluate].
//
// A [Set] has cases. A [Case] is a conversation, or a [Scenario] that a [Simulator] leads.
// An [Invocation] is a turn, expected or actual. A [Metric] scores a case's turns by a
// [Criterion]; a [Measure] is a metric with its criterion. A [Judge] is a model that
// answers a prompt.
//
// The files, from the outside to the inside:
//
//	set.go, persona.go          eval sets, their turns, and prebuilt personas
//	read.go                     set files in all ADK forms
//	criterion.go                criteria and test_config.json
//	result.go                   results, their files, and statuses
//	outcome.go                  the result of a case over all its runs
//	scores.go, usage.go         what a metric returns, and what runs used
//	select.go                   arguments SET:case,case, and IDs
//	turns.go                    session events to turns
//	evaluate.go                 one case: all its metrics, notes and the final status
//	metric.go                   the list of metrics
//	trajectory.go               tool calls
//	rouge.go, porter.go         words in the final response
//	efficiency.go               counts without a threshold
//	judge.go                    a judge's samples and vote
//	judge_match.go              final response against the expected one
//	rubric.go, prompt.go        rubrics
//	hallucination.go            sentences against their context
//	user_simulator_quality.go   a simulated user's messages
//	judge_local.go, hosted.go   metrics that ADK leaves to Vertex AI, by a judge or by it
//	generate.go                 scenarios that a model writes for an app
//	simulate.go                 messages from a scenario, injected tool results
//	json.go, encode.go          JSON: both spellings, unknown keys, error places
//
// The rules come from adk-python 2.11. Decided differences: a turn count that differs
// fails the case instead of the run, a metric that could not be evaluated denies a pass
// unless [Options] allows it, and reasons are kept in notes, which ADK ignores.
package eval
