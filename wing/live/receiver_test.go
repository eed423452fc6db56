package live_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/wing/live"
)

// serverMessage has the keys of Live API messages that the traces use.
type serverMessage struct {
	ServerContent *struct {
		ModelTurn           *genai.Content
		TurnComplete        bool
		Interrupted         bool
		GenerationComplete  bool
		TurnCompleteReason  string
		GroundingMetadata   *genai.GroundingMetadata
		InputTranscription  *genai.Transcription
		OutputTranscription *genai.Transcription
	}
	ToolCall                *struct{ FunctionCalls []*genai.FunctionCall }
	SessionResumptionUpdate *model.LiveResumption
	VoiceActivity           *struct{ Type, AudioOffset string }
	GoAway, UsageMetadata   json.RawMessage
}

func (m *serverMessage) decode() *model.LiveMessage {
	out := &model.LiveMessage{Resumption: m.SessionResumptionUpdate}
	if c := m.ServerContent; c != nil {
		out.Content, out.Grounding = c.ModelTurn, c.GroundingMetadata
		out.TurnComplete, out.Interrupted, out.GenerationComplete = c.TurnComplete, c.Interrupted, c.GenerationComplete
		out.TurnCompleteReason = c.TurnCompleteReason
		out.InputTranscription, out.OutputTranscription = c.InputTranscription, c.OutputTranscription
	}
	if m.UsageMetadata != nil {
		renamed := strings.ReplaceAll(string(m.UsageMetadata), "responseToken", "candidatesToken")
		out.Usage = &genai.GenerateContentResponseUsageMetadata{}
		if err := json.Unmarshal([]byte(renamed), out.Usage); err != nil {
			panic(err)
		}
	}
	if m.ToolCall != nil {
		out.Calls = m.ToolCall.FunctionCalls
	}
	if v := m.VoiceActivity; v != nil {
		out.VoiceActivity = &genai.VoiceActivity{VoiceActivityType: genai.VoiceActivityType(v.Type)}
		if v.AudioOffset != "" {
			out.VoiceActivity.AudioOffset, _ = time.ParseDuration(v.AudioOffset)
		}
	}
	return out
}

type trace struct {
	Name  string
	Agent struct {
		Name, Kind, Model string
	}
	Steps []map[string]json.RawMessage
	// Events have many keys; the receiver sets only some.
	Events []map[string]any
}

// The receiver makes the events that ADK's runner made from the same messages. Traces with several
// connections, saved audio or plugins need more than a receiver; the runtime's test runs them all.
func TestReceiverTraces(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "adk_traces.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	other := []string{
		"tool-call-no-id", "tool-long-running", "tool-unknown", "tool-state", // the runtime adds to calls
		"save-live-blob", "save-live-blob-interrupt", "plugin-on-event", "plugin-before-run", "before-agent",
		"no-reconnect-without-handle", "setup-vad-refused", "setup-transparent-false-refused", "output-key-audio",
		"drop-loses-calls", "drop-loses-partial-text", "transfer-child-drop-no-handle",
	}
	for line := range bytes.Lines(text) {
		tr := &trace{}
		if err := json.Unmarshal(line, tr); err != nil {
			t.Fatal(err)
		}
		if tr.Agent.Kind != "LlmAgent" || slices.Contains(other, tr.Name) || tr.transfers() {
			continue
		}
		t.Run(tr.Name, func(t *testing.T) { tr.check(t) })
	}
}

func (tr *trace) transfers() bool {
	text, _ := json.Marshal(tr)
	return strings.Contains(string(text), "transfer_to_agent") || strings.Contains(string(text), `"live-2"`)
}

func (tr *trace) check(t *testing.T) {
	three := strings.HasPrefix(tr.Agent.Model, "gemini-3.")
	traits := model.LiveTraits{ExecutesCallsAtOnce: three, WholeTranscripts: three}
	r := live.NewReceiver(traits, tr.Agent.Model, "live-1")
	var got, want []map[string]any
	for _, step := range tr.Steps {
		if step["server"] == nil {
			continue
		}
		var m serverMessage
		if err := json.Unmarshal(step["server"], &m); err != nil {
			t.Fatal(err)
		}
		for _, resp := range r.Receive(m.decode()) {
			got = append(got, eventFields(t, resp))
		}
	}
	for _, e := range tr.Events {
		text, _ := json.Marshal(e)
		if !strings.Contains(string(text), "functionResponse") && !strings.Contains(string(text), "fileData") {
			delete(e, "author")
			want = append(want, e)
		}
	}
	// The segment type omits index 0, the API's default.
	zeroIndex := cmpopts.IgnoreMapEntries(func(key string, v any) bool { return key == "startIndex" && v == 0.0 })
	if diff := cmp.Diff(want, got, zeroIndex); diff != "" {
		t.Errorf("responses (-ADK +ours):\n%s", diff)
	}
}

// eventFields returns a response event's JSON form, without what every event has.
func eventFields(t *testing.T, resp *model.Response) map[string]any {
	text, err := session.AppendEvent(nil, &session.Event{Response: *resp})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"id", "invocationId", "author", "actions", "timestamp", "nodeInfo", "longRunningToolIds"} {
		delete(fields, key)
	}
	return fields
}

// A model that never completes a turn fills no memory: long texts and transcripts are completed in
// parts without loss, and calls do not wait.
func TestReceiverBounds(t *testing.T) {
	const chunks, size = 1000, 1000
	chunk := strings.Repeat("a", size)
	r := live.NewReceiver(model.LiveTraits{}, "m", "")
	text, transcript, longest, calls := 0, 0, 0, 0
	receive := func(all []*model.Response) {
		for _, resp := range all {
			calls += len(model.CallsOf(resp.Content))
			if resp.Partial {
				continue
			}
			text += len(model.TextOf(resp.Content))
			if resp.OutputTranscription != nil {
				transcript += len(resp.OutputTranscription.Text)
				longest = max(longest, len(resp.OutputTranscription.Text))
			}
			longest = max(longest, len(model.TextOf(resp.Content)))
		}
	}
	for range chunks {
		receive(r.Receive(&model.LiveMessage{Content: model.ModelText(chunk), OutputTranscription: &genai.Transcription{Text: chunk}}))
	}
	if text == 0 || transcript == 0 {
		t.Error("nothing was completed before the end")
	}
	receive(r.Flush())
	if text != chunks*size || transcript != chunks*size || longest > 256<<10 {
		t.Errorf("%d bytes of text, %d of transcripts, the longest has %d", text, transcript, longest)
	}
	for range 1001 {
		receive(r.Receive(&model.LiveMessage{Calls: []*genai.FunctionCall{{Name: "f"}}}))
	}
	if calls != 1001 {
		t.Errorf("%d calls", calls)
	}
	queries := make([]string, 20_000)
	for i := range queries {
		queries[i] = strconv.Itoa(i)
	}
	r.Receive(&model.LiveMessage{Grounding: &genai.GroundingMetadata{WebSearchQueries: queries}})
	all := r.Receive(&model.LiveMessage{Grounding: &genai.GroundingMetadata{WebSearchQueries: []string{"more"}}})
	if got := len(all[0].GroundingMetadata.WebSearchQueries); got != 20_000 {
		t.Errorf("%d queries", got)
	}
}
