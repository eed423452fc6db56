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

	"agenthost/internal/command"
)

// updating reports whether the tests write golden files: the flag -update, which package
// testenv defines.
func updating() bool { return flag.Lookup("update").Value.String() == "true" }

// TestScripts runs command lines. A script's name starts with the verb that it tests, and its first
// line describes the rule that it tests. These commands extend testscript's:
//
//	exits CODE PROGRAM ARG...         exec, and check the exit status
//	host NAME                         select the host NAME (default: serve); $URL is its address
//	serve-bg ARG...                   start agenthost serve, set $URL; output in NAME.out, NAME.err
//	                                  (on a free port, unless ARG has --addr or is --default-addr)
//	signal INT|TERM|HUP               send a signal to the host
//	end-with INT|TERM                 the same, and check that it exits with status 0
//	kill-9                            kill the host
//	exited CODE                       wait until the host exits, with this status
//	http METHOD PATH [BODY-FILE]      send a request, print status and body
//	sse BODY-FILE                     POST it to /run_sse, print the data lines
//	sse-begin BODY-FILE               the same, but continue after the first line
//	sse-end                           print the rest
//	[!] wait-for METHOD PATH TEXT [BODY-FILE]   repeat a request until the response contains the text
//	keep-last VAR PATTERN             set VAR to the last match in the last output, or its group
//	sqlite DATABASE FILE.sql...       run SQL statements on a database file
//	sql URL FILE.sql...               the same on the database of a URL
//	postgres VAR                      create a PostgreSQL database for the script, set VAR to its URL
//	listen VAR [ADDR]                 occupy a port (default: any free one), set VAR to its address
//	fake-model PROVIDER VAR ANSWER    start a fake of a provider, set VAR to its URL
//	fake-idp                          start an authorization server and a service that accepts its tokens,
//	                                  set $ISSUER and $SERVICE
//	browse allow|deny|forge PROGRAM ARG...   exec, while a browser opens the addresses of the authorization
//	                                  server that it prints on stderr; forge first sends a wrong state
//	service NAME FILE                 start an HTTP service that a file describes (see serviceFile), and
//	                                  replace http://NAME.test by its address in all files
//	requests NAME                     print the requests that a service has received
//	model-calls                       print the model and the key of each call of the last fake
//
// Requests have the bearer token $TOKEN, if it is set.
//
// The condition [postgres] is true if there is a PostgreSQL server, [python] if
// $INTERPRETERS has Python.
func TestScripts(t *testing.T) { runScripts(t, filepath.Join("testdata", "script")) }

// TestServiceScripts: what models, servers and files have been reported to send, end to
// end.
func TestServiceScripts(t *testing.T) {
	runScripts(t, filepath.Join("testdata", "script", "services"))
}

// interpretersFolder is the folder that "make interpreters" fills.
const interpretersFolder = "../../bin/interpreters"

func runScripts(t *testing.T, dir string) {
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		Setup:               setUpScript,
		Cmds:                scriptCommands(),
		Condition:           evalCondition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(5 * time.Minute), // for all scripts together; stops programs that should have exited
		UpdateScripts:       updating(),
	})
}

func setUpScript(env *testscript.Env) error {
	// A copy, because an app's sessions are stored next to it.
	apps := env.WorkDir + ".apps"
	env.Defer(func() { _ = os.RemoveAll(apps) }) // the folder is temporary in any case
	if err := os.CopyFS(filepath.Join(apps, "apps"), os.DirFS("../../apps")); err != nil {
		return err
	}
	env.Setenv("APPS", filepath.Join(apps, "apps"))
	for name, path := range map[string]string{"SCHEMAS": "../../schemas", "USAGE": "usage", "SUITE": "../../conformance", "INTERPRETERS": interpretersFolder} {
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		env.Setenv(name, full)
	}
	env.Setenv("GOMEMLIMIT", "off") // no memory limit, and no log line about it, from the machine's cgroup
	p := &scriptState{vars: slices.Clone(env.Vars), hosts: map[string]*servedHost{}, services: map[string]*service{}, name: "serve"}
	env.Values[scriptStateKey{}] = p
	env.Defer(p.stopAll)
	return nil
}

// Each script has a verb in its name and a headline.
func TestScriptsHaveHeadlines(t *testing.T) {
	verbs := []string{"help", "usage"}
	for _, c := range newRootCommand(command.Env{}).Commands() {
		verbs = append(verbs, c.Name())
	}
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	each, eachErr := filepath.Glob(filepath.Join("testdata", "script", "engines", "*.txtar"))
	services, servicesErr := filepath.Glob(filepath.Join("testdata", "script", "services", "*.txtar"))
	if err = errors.Join(err, eachErr, servicesErr); err != nil || len(files) == 0 || len(each) == 0 || len(services) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	files = slices.Concat(files, each, services)
	for _, file := range files {
		verb, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".txtar"), "-")
		if !slices.Contains(verbs, verb) {
			t.Errorf("%s: the name does not start with a verb", file)
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(b, []byte("# ")) {
			t.Errorf("%s has no headline: describe what it tests", file)
		}
	}
}
