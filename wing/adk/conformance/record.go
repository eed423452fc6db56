package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"google.golang.org/genai"
	"gopkg.in/yaml.v3"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A Recorder records the model and tool calls in runs whose state delta has [RecordKey].
// Several goroutines may use it.
type Recorder struct {
	mu      sync.Mutex
	entries map[string][]*entry // by folder
}

// An entry is a recorded call. It is written if done.
type entry struct {
	message   int
	agent     string
	request   *modelRequest
	responses []*session.Event
	call      *genai.FunctionCall
	response  map[string]any
	done      bool
}

type modelRequest struct {
	Model    string                       `json:"model"`
	Contents []*genai.Content             `json:"contents,omitempty"`
	Config   *genai.GenerateContentConfig `json:"config,omitempty"`
}

// A recordedTurn is where a run's calls are recorded.
type recordedTurn struct {
	dir     string
	message int
}

type recordKey struct{}

// Run runs a request, as [Replayer.Run].
func (r *Recorder) Run(ctx context.Context, run RunFunc, req *runtime.RunRequest) runtime.Events {
	config, ok := req.StateDelta[RecordKey].(map[string]any)
	if !ok {
		return run(ctx, req)
	}
	dir, _ := config["dir"].(string)
	index, _ := asInt(config["user_message_index"])
	return run(context.WithValue(ctx, recordKey{}, &recordedTurn{dir: dir, message: index}), req)
}

// addEntry adds an entry when its call begins: recordings are in request order, as in ADK.
func (r *Recorder) addEntry(t *recordedTurn, e *entry) {
	e.message = t.message
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string][]*entry{}
	}
	r.entries[t.dir] = append(r.entries[t.dir], e)
}

// CallModel records a call; see [runtime.Replay].
func (r *Recorder) CallModel(ctx context.Context, call *runtime.ModelCall) iter.Seq2[*model.Response, error] {
	responses := call.Model.Generate(ctx, call.Request)
	t, ok := ctx.Value(recordKey{}).(*recordedTurn)
	if !ok {
		return responses
	}
	return func(yield func(*model.Response, error) bool) {
		e := &entry{agent: call.Request.Origin.Agent, request: copyRequest(call)}
		r.addEntry(t, e)
		for resp, err := range responses {
			if e.done = err == nil; e.done {
				e.responses = append(e.responses, &session.Event{Response: *resp})
			}
			if !yield(resp, err) {
				return
			}
		}
	}
}

// copyRequest copies what later callbacks may change.
func copyRequest(call *runtime.ModelCall) *modelRequest {
	req := &modelRequest{Model: call.Request.Model, Contents: call.Request.Contents, Config: &genai.GenerateContentConfig{}}
	if req.Model == "" {
		req.Model = call.Model.Name()
	}
	if call.Request.Config != nil {
		*req.Config = *call.Request.Config
	}
	return req
}

// RunTool records a call that succeeds; see [runtime.Replay].
func (r *Recorder) RunTool(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
	t, ok := ctx.Value(recordKey{}).(*recordedTurn)
	if !ok {
		return x.Run(ctx)
	}
	e := &entry{agent: x.Call.Origin.Agent, call: &genai.FunctionCall{Name: x.Call.Name, Args: asJSON(x.Call.Args)}}
	r.addEntry(t, e)
	result, err := x.Run(ctx)
	if err == nil {
		r.mu.Lock()
		if e.done = true; result != nil { // nil: a later message has the response
			e.response = asJSON(result.Response)
		}
		r.mu.Unlock()
	}
	return result, err
}

// RecordCase sends a case's messages to a server with this recorder, and writes the
// recordings and the session into the case's folder.
func (r *Recorder) RecordCase(ctx context.Context, client *Runner, c *Case, mode Mode) error {
	s, err := client.runConversation(ctx, c, mode, RecordKey)
	if err != nil {
		return err
	}
	r.mu.Lock()
	entries := r.entries[c.Dir]
	delete(r.entries, c.Dir)
	r.mu.Unlock()
	recordings := &yaml.Node{Kind: yaml.SequenceNode}
	for _, e := range entries {
		if !e.done {
			continue
		}
		n, err := e.encodeYAML()
		if err != nil {
			return err
		}
		recordings.Content = append(recordings.Content, n)
	}
	path, _ := recordingsPath(c.Dir, mode)
	if err := writeYAML(path, mapNode("recordings", recordings)); err != nil {
		return err
	}
	removeConfigs(s)
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	n, err := parseJSON(b)
	if err != nil {
		return err
	}
	return writeYAML(filepath.Join(c.Dir, "generated-session"+mode.fileSuffix()), n)
}

// removeConfigs removes the recording config from a session.
func removeConfigs(s map[string]any) {
	if state, ok := s["state"].(map[string]any); ok {
		s["state"] = withoutConfigs(state)
	}
	events, _ := s["events"].([]any)
	for _, item := range events {
		ev, _ := item.(map[string]any)
		actions, _ := ev["actions"].(map[string]any)
		if delta, ok := actions["stateDelta"].(map[string]any); ok {
			actions["stateDelta"] = withoutConfigs(delta)
		}
	}
}

func (e *entry) encodeYAML() (*yaml.Node, error) {
	n := mapNode("user_message_index", &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(e.message)}, "agent_name", textNode(e.agent))
	if e.call != nil {
		call, err := encodeNode(e.call)
		if err != nil {
			return nil, err
		}
		response, err := encodeNode(&genai.FunctionResponse{Name: e.call.Name, Response: e.response})
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, textNode("tool_recording"), mapNode("tool_call", call, "tool_response", response))
		return n, nil
	}
	request, err := e.encodeRequest()
	if err != nil {
		return nil, err
	}
	responses := &yaml.Node{Kind: yaml.SequenceNode}
	for _, ev := range e.responses {
		b, err := session.AppendEvent(nil, ev)
		if err != nil {
			return nil, err
		}
		response, err := parseJSON(b)
		if err != nil {
			return nil, err
		}
		dropKeys(response, "id", "invocation_id", "author", "timestamp", "actions", "node_info", "long_running_tool_ids")
		responses.Content = append(responses.Content, response)
	}
	n.Content = append(n.Content, textNode("llm_recording"), mapNode("llm_request", request, "llm_responses", responses))
	return n, nil
}

// encodeRequest writes the system instruction as one string, as ADK does.
func (e *entry) encodeRequest() (*yaml.Node, error) {
	own := *e.request
	instruction := model.TextOf(own.Config.SystemInstruction)
	config := *own.Config
	config.SystemInstruction = nil
	own.Config = &config
	n, err := encodeNode(&own)
	if err != nil || instruction == "" {
		return n, err
	}
	settings := childOf(n, "config")
	if settings == nil {
		settings = &yaml.Node{Kind: yaml.MappingNode}
		n.Content = append(n.Content, textNode("config"), settings)
	}
	settings.Content = append([]*yaml.Node{textNode("system_instruction"), textNode(instruction)}, settings.Content...)
	return n, nil
}

func encodeNode(v any) (*yaml.Node, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parseJSON(b)
}

// parseJSON returns JSON as nodes in block style, with struct keys in snake_case, and without
// nulls and empty defaults.
func parseJSON(b []byte) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	n := doc.Content[0]
	formatNode("", n)
	return n, nil
}

// emptyDefaults are the keys that ADK leaves out when they are empty.
var emptyDefaults = []string{"state_delta", "artifact_delta", "requested_auth_configs", "requested_tool_confirmations", "actions", "node_info", "config", "long_running_tool_ids"}

func formatNode(key string, n *yaml.Node) {
	n.Style = 0
	switch n.Kind {
	case yaml.ScalarNode:
		if n.Tag == "!!str" && strings.ContainsAny(n.Value, "\n\"'") {
			n.Style = yaml.LiteralStyle
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			formatNode("", item)
		}
	case yaml.MappingNode:
		formatMapping(key, n)
	}
}

func formatMapping(key string, n *yaml.Node) {
	free := isFree(key)
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		name.Style = 0
		switch {
		case free && key == "properties":
			formatNode("", value)
		case free:
			formatNode("args", value)
		default:
			name.Value = snakeCase(name.Value)
			formatNode(name.Value, value)
			if value.Tag == "!!null" || name.Value == "node_info" && isEmptyPath(value) || len(value.Content) == 0 && value.Kind != yaml.ScalarNode && slices.Contains(emptyDefaults, name.Value) {
				continue
			}
		}
		kept = append(kept, name, value)
	}
	n.Content = kept
}

// isEmptyPath reports the node info for an event outside a workflow.
func isEmptyPath(n *yaml.Node) bool {
	path := childOf(n, "path")
	return len(n.Content) == 2 && path != nil && path.Value == ""
}

func isFree(key string) bool {
	return slices.Contains(freeMaps, key) || slices.Contains([]string{"state", "state_delta", "custom_metadata", "agent_state", "output", "payload", "parameters_json_schema", "response_json_schema"}, key)
}

func snakeCase(key string) string {
	var b strings.Builder
	for i, c := range key {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

func mapNode(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(pairs); i += 2 {
		n.Content = append(n.Content, textNode(pairs[i].(string)), pairs[i+1].(*yaml.Node))
	}
	return n
}

func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsAny(text, "\n\"'") {
		n.Style = yaml.LiteralStyle
	}
	return n
}

func childOf(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func dropKeys(n *yaml.Node, keys ...string) {
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !slices.Contains(keys, n.Content[i].Value) {
			kept = append(kept, n.Content[i], n.Content[i+1])
		}
	}
	n.Content = kept
}

func writeYAML(path string, n *yaml.Node) error {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}
