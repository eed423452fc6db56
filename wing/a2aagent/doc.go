// Package a2aagent has the agent class RemoteA2aAgent: an agent that another server runs, reached by
// the Agent2Agent protocol (ADK: agents/remote_a2a_agent.py).
//
// For the runtime it is an LLM agent whose model is the remote agent: a model call sends what is new in
// the conversation as a message, and the remote task's artifacts are the response. A task that waits for
// a person becomes a call of request_input, whose answer goes to the same task. So streams, questions,
// approvals, callbacks, budgets, traces and stored sessions are those of any agent, and a conversation
// continues after a restart and on every replica: all that it needs is in stored events.
package a2aagent
