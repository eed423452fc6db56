// Package turn describes a conversation turn to tests and evaluations: the variables in their
// expressions, and a user's answers to what the session waits for.
//
//	env := turn.NewEnv(nil)                                // to compile expressions
//	vars := (&turn.Outcome{Events: …, Session: …}).Vars() // to evaluate them
package turn
