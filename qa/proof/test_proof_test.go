package main

import "testing"

// TestExplainsFailure: a failed row shows why, also if no test has printed a failure.
func TestExplainsFailure(t *testing.T) {
	for line, want := range map[string]bool{
		"--- FAIL: TestA (0.1s)":                                             true,
		"--- SKIP: TestA (0.1s)":                                             true,
		"FAIL\tagenthost/cmd/agenthost\t0.7s":                                true,
		"FAIL\tagenthost/wing/chat [build failed]":                           true,
		"goleak: Errors on successful test run: found unexpected goroutines": true,
		"panic: runtime error":                                               true,
		"FAIL":                                                               false,
		"--- PASS: TestA (0.1s)":                                             false,
		"ok  \tagenthost/wing/chat\t1s":                                      false,
	} {
		if got := explainsFailure.MatchString(line); got != want {
			t.Errorf("%q explains a failure: %v, want %v", line, got, want)
		}
	}
}
