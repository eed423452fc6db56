package live

import (
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// A liveAgent is an LLM agent in a live run: one goroutine, the loop, receives from the client, the
// model and the tools, stores, yields, and decides what is sent. Connecting, reading, writing and
// tools use other goroutines, which share nothing with the loop but channels, the outbox and the
// session.
//
//	client ── Queue ──▶ loop ── Outbox ──▶ writer ──▶ model
//	client ◀─── yield ────── loop ◀── messages ───── reader ◀── model
//	                          ▲ └──── calls ─▶ tools
//	                          └── results ──────┘
type liveAgent struct {
	*runtime.TwoWayTurn
	*liveRun
	liveLink
	tools *liveTools
	// made has the model's calls by ID.
	made map[string]madeCall
	// earlier has the calls by ID that other runs made and the model may repeat.
	earlier map[string]*earlierCall
	// turnOpen reports that the model is about to answer, or answers.
	turnOpen bool
	// speaking reports that the model has begun a turn.
	speaking bool
	// called reports that the model has made calls in this turn, and has not begun to answer
	// their responses; responding that responses were sent since the model spoke last.
	called, responding bool
	// heldInput is a transcript that an ended connection left open, while its audio is sent and
	// transcribed again; nil if there is none.
	heldInput *model.Response
	// target is the agent that takes over; completed reports that the agent has called
	// task_completed.
	target    string
	completed bool
}

// hasEnded reports whether the loop is over.
func (a *liveAgent) hasEnded() bool {
	return a.IsDone() || a.closed || a.answer != nil || a.completed || a.target != "" || a.HasEnded() || a.draining && !a.turnOpen && !a.tools.areRunning()
}

func (a *liveAgent) modelName() string { return a.llm.Name() }
