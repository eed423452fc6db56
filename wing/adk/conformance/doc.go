// Package conformance runs the recorded cases of ADK's conformance suite: a client drives a
// server through a case's messages, the server replays the recorded models and tools,
// and the stored session must be the recorded one.
//
//	cases, err := conformance.FindCases([]string{"tests"})
//	runner := &conformance.Runner{Client: http.DefaultClient, URL: "http://127.0.0.1:8000"}
//	result := runner.RunCase(ctx, cases[0], conformance.ModeNone)
//
// A [Replayer] is the server's side. The protocol and the comparisons are those in
// adk-python 2.5: cli/conformance, cli/plugins/replay_plugin.py.
package conformance
