// Package turn describes a turn of a conversation to tests and evaluations: the variables of
// their expressions, and the answers of a user to what the session waits for.
//
//	env := turn.NewEnv(nil)                                // to compile expressions
//	vars := (&turn.Outcome{Events: …, Session: …}).Vars() // to evaluate them
package turn
