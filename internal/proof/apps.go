package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Files of apps, by their paths below a folder.
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

// saveFile replaces a file as editors do: the new one is written beside it and
// takes its name.
func saveFile(path, text string) error {
	temp := path + "~"
	if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

const scriptedModel = "models:\n  demo: {provider: scripted, script: script.yaml}\n"

// clerkApp notes each message with a tool and then answers: four events a turn.
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

// ledgerApp answers each message, and notes some of them with a tool first. What
// was cut off can be resumed. The model takes a moment for its answer, or
// for each piece of it, so that kills come between the events of a turn.
func ledgerApp() files {
	return files{
		"ledger/app.yaml": "resumability_config: {is_resumable: true}\n" + scriptedModel,
		"ledger/root_agent.yaml": `name: ledger
model: demo
instruction: Note what is to be noted.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`,
		"ledger/script.yaml": `- when: responses.note != nil
  text: "Noted: {user}"
  delay: 50ms
- when: user startsWith "note"
  calls: [{name: note, args: {text: "a message"}}]
- text: "Heard: {user}"
  delay: 50ms
`,
	}
}

// guideApp says what its instruction says. Asked for "slow", it calls a tool
// after a while, and answers in a second call of the model.
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

// generateApps makes apps of some agents each, as people write them: an instruction
// with state, a tool of the app's and one of their own.
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

// victimApp answers, notes what it is told, and tells what it knows: an app that
// hostile clients talk with.
func victimApp() files {
	return files{
		"prey/root_agent.yaml": `name: prey
model: demo
instruction: "Answer. {k?} {user:k?} {artifact.a.txt?}"
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {k: args.text}}
  - name: load_artifacts
`,
		"prey/app.yaml": "resumability_config: {is_resumable: true}\n" + scriptedModel,
		"prey/script.yaml": `- when: responses.note != nil
  text: "Noted: {user}"
  chunks: 3
- calls: [{name: note, args: {text: "a message"}}]
`,
	}
}
