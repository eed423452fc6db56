package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// files are app files, by path.
type files map[string]string

func (fs files) writeTo(dir string) error {
	for name, text := range fs {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// saveFile replaces a file as editors do: it writes a temporary file and renames it.
func saveFile(path, text string) error {
	temp := path + "~"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

const scriptedModel = "models:\n  demo: {provider: scripted, script: script.yaml}\n"

// clerkApp returns an app that calls a tool for each message and then answers: four
// events a turn.
func clerkApp() files {
	return files{
		"clerk/app.yaml": scriptedModel,
		"clerk/root_agent.yaml": `name: clerk
model: demo
instruction: Note everything.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`,
		"clerk/script.yaml": `- when: responses.note != nil
  text: "Noted: {user}"
- calls: [{name: note, args: {text: "a message"}}]
`,
	}
}

// ledgerApp returns a resumable app that calls a tool for some messages. The model waits before an
// answer, or before each chunk, so that kills happen between a turn's events.
func ledgerApp() files {
	return files{
		"ledger/app.yaml": "resumability_config: {is_resumable: true}\n" + scriptedModel,
		"ledger/root_agent.yaml": `name: ledger
model: demo
instruction: Save each note.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`,
		"ledger/script.yaml": `- when: responses.note != nil
  text: "Noted: {user}"
  delay: 50ms
- when: user startsWith "note"
  calls: [{name: note, args: {text: "a message"}}]
- text: "Echo: {user}"
  delay: 50ms
`,
	}
}

// guideApp returns an app that answers with its instruction. For the message "slow" it
// calls a tool after one second and answers in a second model call.
func guideApp() files {
	return files{
		"guide/app.yaml":        scriptedModel,
		"guide/root_agent.yaml": guideAgent(0),
		"guide/script.yaml": `- when: responses.think != nil
  text: "Turn {turn}: {instruction}"
- when: user == "slow"
  calls: [{name: think}]
  delay: 1s
- text: "Turn {turn}: {instruction}"
`,
	}
}

func guideAgent(rule int) string {
	return fmt.Sprintf(`name: guide
model: demo
instruction: Rule %d.
tools:
  - expr: {name: think, value: "1"}
`, rule)
}

// generateApps returns typical apps with the given number of agents: an instruction with state, a
// shared tool and a tool for each agent.
func generateApps(apps, agents int) files {
	fs := files{}
	for a := range apps {
		dir := fmt.Sprintf("app_%03d/", a)
		fs[dir+"app.yaml"] = scriptedModel + lookupTool
		fs[dir+"script.yaml"] = "- text: \"{instruction}\"\n"
		var root strings.Builder
		root.WriteString(officeAgent("root"))
		if agents > 1 {
			root.WriteString("sub_agents:\n")
		}
		for i := range agents - 1 {
			name := fmt.Sprintf("agent_%d", i)
			fs[dir+name+".yaml"] = officeAgent(name)
			fmt.Fprintf(&root, "  - config_path: %s.yaml\n", name)
		}
		fs[dir+"root_agent.yaml"] = root.String()
	}
	return fs
}

const lookupTool = `description: Answers questions about orders.
tools:
  lookup:
    http:
      name: lookup
      description: Looks an order up by its number.
      url: "http://127.0.0.1:9/orders/{args.id}"
      params: {id: string}
      timeout: 5s
`

func officeAgent(name string) string {
	return strings.ReplaceAll(`name: NAME
description: Answers questions of the kind NAME.
model: demo
instruction: |
  You are NAME, and answer in one friendly sentence.
  The name of the user, if it is known: {user:name?}
  The last order was {last_order?}, the mood is {user:mood?}.
  Be brief, be kind, be exact. Never promise what you cannot keep.
output_key: answer_of_NAME
tools:
  - use: lookup
  - expr:
      name: vat
      description: Adds 21 % tax to a net price.
      params: {net: number}
      value: round(args.net * 121) / 100
      set: {last_net: args.net}
`, "NAME", name)
}

// victimApp returns the app that hostile clients attack. It has a tool, state and
// artifacts.
func victimApp() files {
	return files{
		"victim/root_agent.yaml": `name: victim
model: demo
instruction: "Answer. {k?} {user:k?} {artifact.a.txt?}"
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {k: args.text}}
  - name: load_artifacts
`,
		"victim/app.yaml": "resumability_config: {is_resumable: true}\n" + scriptedModel,
		"victim/script.yaml": `- when: responses.note != nil
  text: "Noted: {user}"
  chunks: 3
- calls: [{name: note, args: {text: "a message"}}]
`,
	}
}
