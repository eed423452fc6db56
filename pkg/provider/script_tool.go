package provider

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A ScriptTool is what one call of a tool came to. Models do not look at it:
// it answers in the tool's place when a record is played ([ToolReplay]).
type ScriptTool struct {
	Name     string         `yaml:"name" required:"true" doc:"The tool's name."`
	Args     map[string]any `yaml:"args" doc:"The arguments that the call must have. Default: any."`
	Response map[string]any `yaml:"response" doc:"The response of the tool. Default: none."`
	Error    string         `yaml:"error" doc:"Instead of response: the error of the tool."`
	State    map[string]any `yaml:"state" doc:"The state keys that the call set; null removed a key."`
}

// A ToolCall is a call of a tool, and what came of it.
type ToolCall struct {
	Origin model.Origin
	Name   string
	Args   map[string]any
	// Response is nil when the tool answered nothing, and when it failed.
	Response map[string]any
	// Error is empty unless it failed.
	Error string
	// State are the keys that it set.
	State map[string]any
}

// AddToolCall writes an entry that answers the same call the same.
func (r *Recorder) AddToolCall(c *ToolCall) {
	r.writeEntry(toolEntry(c))
}

func toolEntry(c *ToolCall) (string, error) {
	e := newEntryText(&model.Request{Origin: c.Origin})
	text := "{name: " + YAMLText(c.Name)
	fields := []struct {
		name  string
		value map[string]any
		given bool
	}{{"args", c.Args, true}, {"response", c.Response, c.Response != nil}, {"state", c.State, len(c.State) > 0}}
	for _, f := range fields {
		if !f.given {
			continue
		}
		value, err := YAMLMapping(f.value)
		if err != nil {
			return "", err
		}
		text += ", " + f.name + ": " + value
	}
	if c.Error != "" {
		text += ", error: " + YAMLText(c.Error)
	}
	e.addKey("tool", text+"}")
	return e.String(), nil
}

// A ToolReplay answers calls of tools from a script, whose entries it uses up
// as [ScriptEntry] says, apart from those of models. Many goroutines may use it.
type ToolReplay struct {
	script *Script
	used   answerCounter
}

// NewToolReplay makes one of a script, which [DecodeScript] found without
// problems.
func NewToolReplay(s *Script) *ToolReplay { return &ToolReplay{script: s} }

// Answer finds what a call came to. The error says what the script has in its
// place, and where.
func (p *ToolReplay) Answer(ctx context.Context, from model.Origin, name string, args map[string]any) (*ScriptTool, error) {
	given, err := YAMLMapping(args)
	if err != nil {
		return nil, err
	}
	q := newScriptInput(&model.Request{Origin: from, Config: &genai.GenerateContentConfig{}}, p.script.keys)
	var near closestEntry
	for i, e := range p.script.entries {
		if e.Tool == nil || e.Tool.Name != name {
			continue
		}
		if e.when != nil {
			match, err := e.when.Bool(ctx, q.vars)
			if err != nil {
				return nil, e.fieldError("when", err)
			}
			if !match {
				near.consider(e, "is for another message, turn or agent", 1)
				continue
			}
		}
		if wanted, err := YAMLMapping(e.Tool.Args); err != nil || e.Tool.Args != nil && wanted != given {
			near.consider(e, "has the arguments "+wanted, 3)
			continue
		}
		if p.used.countAnswer(from, i, e.Times) {
			return e.Tool.clone(), nil
		}
		near.consider(e, "answered already", 2)
	}
	return nil, fmt.Errorf("%s has no answer for this call of %s by agent %s in turn %d, with the arguments %s: %s; record the conversation anew, or add an entry",
		p.script.fileName(), name, strconv.Quote(from.Agent), from.Turn, given, near.describeEntry(name))
}

// clone is a copy whose maps the caller may change.
func (t *ScriptTool) clone() *ScriptTool {
	c := *t
	c.Response, c.State = maps.Clone(t.Response), maps.Clone(t.State)
	return &c
}

// closestEntry is the entry that came closest to a call.
type closestEntry struct {
	entry *scriptEntry
	why   string
	rank  int
}

func (n *closestEntry) consider(e *scriptEntry, why string, rank int) {
	if rank > n.rank {
		*n = closestEntry{e, why, rank}
	}
}

func (n *closestEntry) describeEntry(name string) string {
	if n.entry == nil {
		return "there is no entry of the tool " + name
	}
	return fmt.Sprintf("the entry at %s %s", n.entry.pos.Short(), n.why)
}
