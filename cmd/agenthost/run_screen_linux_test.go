package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/command"
)

// screenApp answers with Markdown, asks for an approval, and hands over to another agent.
var screenApp = map[string]string{
	"app.yaml":     "models: {demo: {provider: scripted, script: s.yaml}}\n",
	"billing.yaml": "name: billing\nmodel: demo\ndescription: Answers questions about invoices.\ninstruction: Help.\n",
	"root_agent.yaml": `name: clerk
model: demo
description: Answers questions about orders.
instruction: Help.
sub_agents: [{config_path: billing.yaml}]
tools:
- expr: {name: pay, description: Pays., params: {to: string, amount: integer, note: string}, value: "'paid ' + args.to", confirm: true}
- expr: {name: look_up, description: Looks up., params: {order: integer}, value: "{'status': 'shipped'}"}
`,
	"s.yaml": `- {when: responses.pay.error != nil, text: "Not paid."}
- {when: responses.pay != nil, text: "Done: **{responses.pay.result}**."}
- when: responses.look_up != nil
  chunks: 40
  text: |
    ## Order 7

    It is **shipped**:

    | item | price |
    |---|---:|
    | apples | 3 |
    | a basket of pears that are ripe | 12 |

    1. Open the box with ` + "`scissors`" + `.
    2. Enjoy.

    ` + "```sh" + `
    make box
    ` + "```" + `
- {when: user contains "order", calls: [{name: look_up, args: {order: 7}}]}
- {when: user contains "pay", calls: [{name: pay, args: {to: Ana, amount: 12, note: "one\ntwo \"x\""}}]}
- {when: agent == "clerk" && (user contains "invoice" || user contains "bill"), calls: [{name: transfer_to_agent, args: {agent_name: billing}}]}
- {text: "You wrote: {user}"}
`,
}

// The screen of a conversation: Markdown, an approval with its arguments, another agent, commands
// and a reload. The golden files are what a person sees, with the lines that have scrolled away.
func TestRunScreen(t *testing.T) {
	for _, width := range []int{80, 40} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range screenApp {
				saveFile(t, filepath.Join(dir, "clerk"), name, text)
			}
			r := startTerminalRun(t, dir, width, 24)
			r.waitFor("/help")
			r.typeKeys("Where is order 7?\r")
			r.waitFor("make box")
			r.waitFor("answered in")
			r.typeKeys("pay Ana\r")
			r.waitFor("approve pay? [y/n]")
			r.typeKeys("y\r")
			r.waitFor("Done: paid Ana.")
			r.waitFor("answered in")
			r.typeKeys("my invoice\r")
			r.waitFor("You wrote: my invoice")
			r.waitFor("answered in")
			r.typeKeys("/agents bi\t\r")
			r.waitFor("Help.")
			r.typeKeys("/retry\r")
			r.waitFor("> /retry")
			r.waitFor("answered in")
			r.typeKeys("/edit\r")
			r.waitFor("/edit again")
			r.waitFor("> my invoice\n")
			r.typeKeys("\x17bill\r")
			r.waitFor("You wrote: my bill")
			r.waitFor("answered in")
			saveFile(t, filepath.Join(dir, "clerk"), "billing.yaml", "name: billing\nmodel: demo\ndescription: Answers questions about invoices.\ninstruction: Help a lot.\n")
			r.waitFor("billing instruction changed")
			r.typeKeys("/frob\r")
			r.waitFor("unknown command /frob")
			r.typeKeys("\x04")
			r.waitFor("continue with")
			r.expectExit(command.ExitOK)
			got := regexp.MustCompile(`[0-9.]+ s\b`).ReplaceAllString(r.showLines(), "N s") + "\n"
			got = regexp.MustCompile(`(?s)Sessions are in.*?\nclerk ·`).ReplaceAllString(got, "clerk ·") // a temporary folder
			golden := filepath.Join("testdata", "screen", strconv.Itoa(width)+".txt")
			if updating() {
				saveFile(t, filepath.Dir(golden), filepath.Base(golden), got)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// With --plain, a terminal receives lines only: nothing is redrawn, and there are no colours.
func TestRunPlainInTerminal(t *testing.T) {
	dir := t.TempDir()
	for name, text := range screenApp {
		saveFile(t, filepath.Join(dir, "clerk"), name, text)
	}
	r := startTerminalRun(t, dir, 80, 24, "--plain")
	r.waitFor("\n>")
	r.typeKeys("Where is order 7?\n")
	r.waitFor("| a basket of pears that are ripe | 12 |")
	r.waitFor("```\n\n>")
	r.typeKeys("/frob\n")
	r.waitFor("unknown command /frob")
	r.typeKeys("\x04")
	r.waitFor("continue with: agenthost run clerk --session s")
	r.expectExit(command.ExitOK)
	if bytes.Contains(r.received, []byte("\x1b")) {
		t.Errorf("the terminal receives escape sequences: %q", r.received)
	}
}
