// Package runtime runs agents. A [Host] holds apps; an [App] is an immutable
// snapshot of one deployed folder; [Host.Run] carries out one invocation.
//
// The life of an invocation:
//
//	Host.Run          take the app's snapshot, wait for the session's turn, load it
//	carryOut          store the user's event
//	pick              choose the agent that answers
//	Agent.Run         yield events; an LLM agent takes steps:
//	  request           settings, instructions, contents, tools
//	  Generate          the model answers, in pieces or whole
//	  runCalls          its calls run side by side, their answers are merged
//	committing        each event: stored, then seen, then the agent goes on
//
// It is a chain of iterators: each level ranges over the one below. Pulling
// gives the contract of ADK's event loop by itself: an event is stored before
// it is seen, and seen before its agent goes on. Partial events are seen and
// never stored. A consumer that stops ends the whole chain, and what was
// stored stays. Goroutines exist only where things happen side by side: in
// parallel agents, and in the calls of one event.
//
// Words: an invocation is one run, from a user message to the last event that
// follows from it; a step is one model call and the calls that it makes; a
// branch is the path of parallel agents that hides siblings from each other.
// The rules are those of adk-python's classic path; where implementations
// differ, docs/decisions says what holds here.
package runtime
