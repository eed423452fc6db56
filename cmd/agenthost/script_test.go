package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// updating says whether the tests write what they get into the golden files:
// the flag -update, which package testenv has too.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestScripts carries out command lines as people write them. Each script
// begins with the verb that it is about in its name, and with prose that says
// what it shows. Beside testscript's own commands there are:
//
//	exits CODE PROGRAM ARG...         exec, and see it end with this status
//	host NAME                         what follows is about the host NAME (before: serve); $URL is its address
//	serve-bg ARG...                   start agenthost serve, set $URL; output in NAME.out, NAME.err
//	                                  (at a free port, unless ARG has --addr or is --default-addr)
//	signal INT|TERM|HUP               send a signal to it
//	end-with INT|TERM                 the same, and see it end with status 0
//	kill-9                            end it at once
//	exited CODE                       wait until it ended, with this status
//	http METHOD PATH [BODY-FILE]      ask it, print status and body
//	sse BODY-FILE                     POST it to /run_sse, print the data lines
//	sse-begin BODY-FILE               the same, but go on after the first of them
//	sse-end                           print the rest
//	[!] wait-for METHOD PATH TEXT [BODY-FILE]   ask until the answer has the text
//	keep-last VAR PATTERN             set VAR to the last match in the last output, or its group
//	sqlite DATABASE FILE.sql...       carry out SQL statements in a database file
//	sql URL FILE.sql...               the same in the database of a URL
//	postgres VAR                      make a PostgreSQL database for the script, set VAR to its URL
//	listen VAR [ADDR]                 see that a port is taken (any free one), set VAR to its address
//
// Requests have the bearer token $TOKEN, if it is set.
//
// The condition [postgres] says whether there is a PostgreSQL server.
func TestScripts(t *testing.T) { runScripts(t, filepath.Join("testdata", "script")) }

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Setup:               setUpScript,
		Cmds:                scriptCommands(),
		Condition:           evalCondition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(time.Minute), // ends what was not to run on
		UpdateScripts:       updating(),
	})
}

func setUpScript(env *testscript.Env) error {
	for name, path := range map[string]string{"APPS": "../../apps", "USAGE": "usage"} {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		env.Setenv(name, full)
	}
	p := &scriptState{vars: slices.Clone(env.Vars), hosts: map[string]*servedHost{}, name: "serve"}
	env.Values[scriptStateKey{}] = p
	env.Defer(p.stopAll)
	return nil
}

func TestScriptsHaveHeadlines(t *testing.T) {
	verbs := []string{"help", "usage"}
	for _, c := range newRoot(stdio{}).Commands() {
		verbs = append(verbs, c.Name())
	}
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	each, eachErr := filepath.Glob(filepath.Join("testdata", "script", "engines", "*.txtar"))
	if err = errors.Join(err, eachErr); err != nil || len(files) == 0 || len(each) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	files = append(files, each...)
	for _, file := range files {
		verb, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txtar"), "-")
		if !slices.Contains(verbs, verb) {
			t.Errorf("%s: the name does not begin with a verb", file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte("# ")) {
			t.Errorf("%s has no prose: say what it shows", file)
		}
	}
}
