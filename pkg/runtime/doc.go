// Package runtime runs agents. A [Host] holds apps; an [App] is an immutable
// snapshot of one deployed folder; [Host.Run] runs one invocation.
//
// How an invocation runs:
//
//	Host.Run          acquire the app's snapshot and the session, and load it
//	runInvocation     store the user's event
//	chooseAgent       choose the agent that answers
//	Agent.Run         yield events; an LLM agent takes steps:
//	  buildRequest      settings, instructions, contents, tools
//	  Generate          the model responds, streamed or not
//	  runCalls          its tool calls run concurrently, their results are merged
//	commitThenYield   store each event, yield it, then resume the agent
//
// It is a chain of iterators: each level ranges over the one below. An event is stored before the
// consumer sees it, and the consumer sees it before its agent continues, as in ADK's event loop.
// Partial events are yielded and never stored. A consumer that stops ends the whole chain; stored
// events stay. Only parallel agents, workflows and the calls in one event start goroutines.
//
// Terms: a run is one call of [Host.Run]. An invocation is what it starts or resumes: the events
// from a user message to the last answer to it. A step is one model call with the tool calls that
// it makes. A branch is the path of parallel agents; it hides siblings' events from each other. The
// rules follow adk-python's classic path; docs/decisions states where they differ.
package runtime
