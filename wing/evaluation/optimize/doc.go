// Package optimize improves an agent's instruction by eval sets: a model proposes
// instructions from the conversations that failed, and cases score them.
//
//	o := &optimize.Optimizer{Instruction: …, Train: jobs, Validation: jobs, Open: open, Ask: ask, …}
//	result, err := o.Run(ctx)   // the best instruction, and every score
//
// The search follows ADK's optimizer (adk-python optimization/
// gepa_root_agent_prompt_optimizer.py, and GEPA: reflective prompt evolution): a candidate
// that is best for a validation case is the next one's parent; the child must be better
// than its parent on a few training cases before all validation cases score it.
//
// The files:
//
//	config.go      ADK's config files
//	optimizer.go   the search
//	scores.go      cases and their scores
//	reflect.go     the prompt for a new instruction
//	proposal.go    the answer, and what an instruction must keep
//	diff.go        a unified diff
package optimize
