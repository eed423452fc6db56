package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"agenthost/internal/fake/fakeidp"
)

// startFakeIDP starts an authorization server, and a service that accepts its tokens.
func startFakeIDP(ts *testscript.TestScript, _ []string) {
	idp := fakeidp.Start("http://127.0.0.1/oauth/callback")
	idp.Interval = 1
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !idp.Accepts(r.Header.Get("Authorization")) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, "found Ana")
	}))
	ts.Defer(func() {
		idp.Close()
		service.Close()
		for _, p := range idp.Problems() {
			ts.Fatalf("authorization server: %s", p)
		}
	})
	ts.Setenv("ISSUER", idp.URL)
	ts.Setenv("SERVICE", service.URL)
}

var userCodeLine = regexp.MustCompile(`^and enter the code (\S+)$`)

// runWithBrowser runs a program, and does in a browser what the program asks for.
func runWithBrowser(ts *testscript.TestScript, args []string) {
	cmd := exec.Command(args[1], args[2:]...)
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd.Path, cmd.Dir, cmd.Env = program, ts.MkAbs("."), stateOf(ts).vars
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	var stdout, printed bytes.Buffer
	cmd.Stdout = &stdout
	ts.Check(cmd.Start())
	address := ""
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		line := lines.Text()
		printed.WriteString(line + "\n")
		if at := strings.TrimSpace(line); strings.HasPrefix(at, ts.Getenv("ISSUER")) {
			address = at
		}
		code := userCodeLine.FindStringSubmatch(line)
		switch {
		case strings.Contains(address, "/authorize?"):
			ts.Check(openInBrowser(address, args[0]))
			address = ""
		case code != nil:
			answer := url.Values{"user_code": {code[1]}, "answer": {args[0]}}
			resp, err := http.PostForm(address, answer)
			ts.Check(err)
			resp.Body.Close()
		}
	}
	err = cmd.Wait()
	_, _ = ts.Stdout().Write(stdout.Bytes())
	_, _ = ts.Stderr().Write(printed.Bytes())
	if err != nil {
		_, _ = io.WriteString(ts.Stderr(), err.Error()+"\n")
	}
}

// openInBrowser opens an authorization URL, and follows where the server sends the browser.
func openInBrowser(address, answer string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	redirect, state := u.Query().Get("redirect_uri"), u.Query().Get("state")
	switch answer {
	case "deny":
		address = redirect + "?" + url.Values{"error": {"access_denied"}, "state": {state}, "iss": {u.Scheme + "://" + u.Host}}.Encode()
	case "forge":
		resp, err := http.Get(redirect + "?code=stolen&state=guessed")
		if err != nil {
			return err
		}
		resp.Body.Close()
	}
	resp, err := http.Get(address)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
