package provider

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A ScriptTool is the recorded result of a tool call. Models ignore it; [ToolReplay]
// returns it instead of calling the tool.
type ScriptTool struct {
	Name     string         `yaml:"name" required:"true" doc:"The tool's name."`
	Args     map[string]any `yaml:"args" doc:"The arguments that the call must have. Default: any."`
	Response map[string]any `yaml:"response" doc:"The response of the tool. Default: none."`
	Error    string         `yaml:"error" doc:"Instead of response: the error of the tool."`
	State    map[string]any `yaml:"state" doc:"The state keys that the call set; null removed a key."`
}

// A ToolCall is a tool call and its result.
type ToolCall struct {
	Origin model.Origin
	Name   string
	Args   map[string]any
	// Response is nil if the tool returned nothing or failed.
	Response map[string]any
	// Error is the error message, or empty.
	Error string
	// State holds the state keys that the call set.
	State map[string]any
}

// AddToolCall records a tool call for replay.
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

// A ToolReplay answers tool calls from a script. It counts the use of entries like
// [ScriptEntry], separately from models. It is safe for concurrent use.
type ToolReplay struct {
	script *Script
	used   answerCounter
}

// NewToolReplay returns a replay of a script that [DecodeScript] returned without
// problems.
func NewToolReplay(s *Script) *ToolReplay { return &ToolReplay{script: s} }

// Answer returns the recorded result of a call. The error names the closest entry and
// its position.
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
	return nil, fmt.Errorf("%s has no answer for this call of %s by agent %s in turn %d, with the arguments %s: %s; record the conversation again, or add an entry",
		p.script.fileName(), name, strconv.Quote(from.Agent), from.Turn, given, near.describeEntry(name))
}

// clone returns a copy whose maps the caller may modify.
func (t *ScriptTool) clone() *ScriptTool {
	c := *t
	c.Response, c.State = maps.Clone(t.Response), maps.Clone(t.State)
	return &c
}

// closestEntry is the entry most similar to a call.
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
