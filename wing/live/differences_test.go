package live_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// A liveDifference is where this host deliberately differs from ADK, for one trace.
// docs/live.md has the same list for people.
type liveDifference struct {
	reason string
	change func(*traceResult)
}

const (
	speaksAfterTransfer = "the model of the agent that takes over receives a request to speak: by the service's rules, a history alone does not make it answer"
	reportsBadRequest   = "an invalid request is answered by an event with an error, and nothing else changes"
	recordsWAV          = "recordings are WAV files that players know, their references are those of all artifacts, and the event that ends the turn follows them"
	keepsPartial        = "an incomplete answer is stored as interrupted when the connection drops"
)

// liveDifferences are the decided differences by trace.
func liveDifferences() map[string]liveDifference {
	return map[string]liveDifference{
		"tool-unknown": {"an unknown tool is an error that the model receives, and the run continues", func(r *traceResult) {
			response := `"content":{"parts":[{"functionResponse":{"id":"c1","name":"nope","response":{"error":"tool \"nope\" not found: the available tools are get_time"}}}],"role":"user"}`
			r.Frames[1] = parseMap(`{"conn":1,"toolResponse":{"functionResponses":[{"id":"c1","name":"nope","response":{"error":"tool \"nope\" not found: the available tools are get_time"}}]}}`)
			r.appendBoth(`{"author":"root","liveSessionId":"live-1",` + response + `}`)
			r.End = "running"
		}},
		"transfer":                      {speaksAfterTransfer, func(r *traceResult) { r.askToSpeak(2) }},
		"transfer-clears-handle":        {speaksAfterTransfer, func(r *traceResult) { r.askToSpeak(2) }},
		"transfer-child-drop-no-handle": {speaksAfterTransfer, func(r *traceResult) { r.askToSpeak(2) }},
		"transfer-and-back": {speaksAfterTransfer, func(r *traceResult) {
			r.askToSpeak(2)
			r.askToSpeak(3)
		}},
		"blobs-3x": {reportsBadRequest, func(r *traceResult) {
			r.insertEvent(0, `{"author":"root","errorCode":"INVALID_REQUEST","errorMessage":"model gemini-3.1-flash-live-preview accepts no video/mp4: these blobs are dropped","partial":true}`)
		}},
		"user-function-call": {reportsBadRequest, func(r *traceResult) {
			r.insertEvent(0, `{"author":"root","errorCode":"INVALID_REQUEST","errorMessage":"the content must not contain a function call","partial":true}`)
			r.insertFrame(1, `{"conn":1,"clientContent":{"turnComplete":true,"turns":[{"parts":[{"text":"never sent"}],"role":"user"}]}}`)
			r.Stored = slices.Insert(r.Stored, 0, parseMap(`{"author":"user","content":{"parts":[{"text":"never sent"}],"role":"user"}}`))
		}},
		"user-function-response": {"a client can answer only calls that were made and that wait for it", func(r *traceResult) {
			r.Frames = r.Frames[:1]
			r.insertEvent(0, `{"author":"root","errorCode":"INVALID_REQUEST","errorMessage":"function response c9 does not match any function call of this conversation","partial":true}`)
		}},
		"reconnect-1006": {"a connection that resumes announces no history, for which the service would wait", func(r *traceResult) {
			delete(r.Frames[2]["setup"].(map[string]any), "historyConfig")
		}},
		"go-away-no-handle": {"the turn is completed first; the new conversation then begins with everything that is stored", func(r *traceResult) {
			last := len(r.Frames) - 1
			r.Frames[last] = parseMap(`{"conn":2,"clientContent":{"turnComplete":true,"turns":[{"parts":[{"text":"earlier question"}],"role":"user"},{"parts":[{"text":"earlier answer"}],"role":"model"},{"parts":[{"text":"newer"}],"role":"user"}]}}`)
			r.Events[0]["liveSessionId"] = "live-1"
			r.Stored[1]["liveSessionId"] = "live-1"
		}},
		"drop-loses-calls": {keepsPartial, func(r *traceResult) {
			kept := `{"author":"root","interrupted":true,"outputTranscription":{"finished":true,"text":"spoken"},"partial":false}`
			r.insertEvent(4, kept)
			r.Stored = slices.Insert(r.Stored, 2, parseMap(kept))
		}},
		"drop-loses-partial-text": {keepsPartial, func(r *traceResult) {
			kept := `{"author":"root","content":{"parts":[{"text":"half a sen"}],"role":"model"},"interrupted":true,"liveSessionId":"live-1","partial":false}`
			r.insertEvent(2, kept)
			r.Stored = slices.Insert(r.Stored, 1, parseMap(kept))
		}},
		"save-live-blob": {recordsWAV, func(r *traceResult) {
			end := `{"author":"root","liveSessionId":"live-1","modelVersion":"gemini-live-2.5-flash-native-audio","turnComplete":true}`
			r.appendBoth(end)
			r.renameRecordings()
		}},
		"save-live-blob-interrupt": {recordsWAV, func(r *traceResult) {
			interrupted := `{"author":"root","interrupted":true,"liveSessionId":"live-1","modelVersion":"gemini-live-2.5-flash-native-audio"}`
			r.insertEvent(2, interrupted)
			r.Stored = slices.Insert(r.Stored, 1, parseMap(interrupted))
			r.appendBoth(`{"author":"root","liveSessionId":"live-1","modelVersion":"gemini-live-2.5-flash-native-audio","turnComplete":true}`)
			r.renameRecordings()
		}},
		"save-live-blob-no-artifacts": {"a host always has artifacts", func(r *traceResult) {
			for i, side := range []string{"input", "output"} {
				author, role := "user", "user"
				if side == "output" {
					author, role = "root", "model"
				}
				saved := parseMap(`{"author":"` + author + `","content":{"parts":[{"fileData":{"fileUri":"artifact://app/u/s/_adk_live/adk_live_audio_storage_` + side + `_audio_<ms>.pcm;rate=16000#0","mimeType":"audio/pcm"}}],"role":"` + role + `"}}`)
				r.Events, r.Stored = slices.Insert(r.Events, 1+i, saved), slices.Insert(r.Stored, i, saved)
			}
			r.renameRecordings()
		}},
		"client-close": {"a close of the client ends the run without an error", func(r *traceResult) { r.End = "ended" }},
		"setup-transparent-false-refused": {"transparent: false is the default, and no error", func(r *traceResult) {
			r.Frames[0] = parseMap(`{"conn":1,"setup":{"model":"models/gemini-live-2.5-flash-native-audio","generationConfig":{"responseModalities":["AUDIO"]},"systemInstruction":{"role":"system","parts":[{"text":"<instruction>"}]},"inputAudioTranscription":{},"outputAudioTranscription":{},"sessionResumption":{}}}`)
			r.End = "running"
		}},
	}
}

// TestLiveDifferencesDocumented: docs/live.md lists every trace with a decided difference.
func TestLiveDifferencesDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/live.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, d := range liveDifferences() {
		if names = append(names, name); d.reason == "" {
			t.Errorf("the difference of %s has no reason", name)
		}
	}
	for _, own := range ownTraces() {
		names = append(names, own.trace.Name)
	}
	for _, name := range names {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/live.md does not list %s", name)
		}
	}
}

// An ownTrace is a live run in which this host deliberately differs from ADK, so that ADK has no
// recording. Check reports what the host should have done.
type ownTrace struct {
	trace *liveTrace
	check func(r *traceResult) string
}

// ownTraces are the runs' messages, in the recorded form.
func ownTraces() []ownTrace {
	const turnComplete = `{"server": {"serverContent": {"turnComplete": true}}}`
	const handle = `{"server": {"sessionResumptionUpdate": {"newHandle": "h1", "resumable": true}}}`
	build := func(text string) *liveTrace {
		trace := &liveTrace{}
		if err := json.Unmarshal([]byte(text), trace); err != nil {
			panic(err)
		}
		return trace
	}
	return []ownTrace{
		// Each turn sets the output key to its own text; ADK appends the turns.
		{
			build(`{"name": "output-key", "backend": "gemini", "agent": {"name": "root", "model": "gemini-2.0-flash-live-001", "output_key": "answer"},
			"run_config": {"response_modalities": ["TEXT"]}, "steps": [
			{"server": {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "Hello"}]}}}}, ` + turnComplete + `,
			{"server": {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": "Two"}]}}}}, ` + turnComplete + `]}`),
			func(r *traceResult) string {
				var answers []any
				for _, ev := range r.Stored {
					actions, _ := ev["actions"].(map[string]any)
					delta, _ := actions["stateDelta"].(map[string]any)
					if delta["answer"] != nil {
						answers = append(answers, delta["answer"])
					}
				}
				return expectSame(answers, []any{"Hello", "Two"})
			},
		},
		// A connection that cannot be resumed at the moment is resumed by its last handle; ADK ends
		// the run.
		{
			build(`{"name": "handle-lost-not-resumable", "backend": "gemini", "agent": {"name": "root", "model": "gemini-live-2.5-flash-native-audio"},
			"run_config": {"session_resumption": {}}, "steps": [` + handle + `, {"server": {"sessionResumptionUpdate": {"resumable": false}}},
			{"server_close": 1006}, {"wait_ms": 5000}, ` + turnComplete + `]}`),
			func(r *traceResult) string {
				setup, _ := r.Frames[len(r.Frames)-1]["setup"].(map[string]any)
				return expectSame([]any{r.End, setup["sessionResumption"]}, []any{"running", map[string]any{"handle": "h1"}})
			},
		},
		// An agent that took over and loses its connection connects again with what is stored; ADK
		// continues with the agent before it.
		{
			build(`{"name": "transfer-child-drop", "backend": "gemini", "agent": {"name": "root", "model": "gemini-live-2.5-flash-native-audio",
			"sub_agents": [{"name": "billing", "model": "gemini-live-2.5-flash-native-audio"}]},
			"run_config": {"session_resumption": {}}, "steps": [` + handle + `,
			{"server": {"toolCall": {"functionCalls": [{"id": "c1", "name": "transfer_to_agent", "args": {"agent_name": "billing"}}]}}}, ` + turnComplete + `,
			{"wait_ms": 120}, ` + turnComplete + `, {"server_close": 1006}, {"wait_ms": 5000}, ` + turnComplete + `]}`),
			func(r *traceResult) string {
				last := r.Events[len(r.Events)-1]
				return expectSame([]any{r.End, last["author"], last["liveSessionId"]}, []any{"running", "billing", "live-3"})
			},
		},
	}
}

func expectSame(got, want []any) string { return cmp.Diff(want, got) }

// TestOwnTraces: the host differs from ADK as docs/live.md describes.
func TestOwnTraces(t *testing.T) {
	for _, own := range ownTraces() {
		t.Run(own.trace.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := playTrace(t, own.trace)
				if problem := own.check(got); problem != "" {
					t.Errorf("(-want +got):\n%s\nframes %s\nevents %s", problem, formatMaps(got.Frames), formatMaps(got.Events))
				}
			})
		})
	}
}

// applyDifference changes what ADK does to what this host does.
func applyDifference(trace string, r *traceResult) {
	if d, ok := liveDifferences()[trace]; ok {
		d.change(r)
	}
	r.rewriteNotation()
}

// rewriteNotation applies the differences that all traces share: values in texts for models are
// JSON instead of Python, and fields with zero values are omitted.
func (r *traceResult) rewriteNotation() {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	python := strings.NewReplacer(`{'agent_name': 'billing'}`, `{\"agent_name\":\"billing\"}`, `{'agent_name': 'root'}`, `{\"agent_name\":\"root\"}`,
		`{'result': None}`, `{\"result\":null}`, `,"startIndex":0`, ``, `"interrupted":false,`, ``)
	*r = traceResult{}
	if err := json.Unmarshal([]byte(python.Replace(string(text))), r); err != nil {
		panic(err)
	}
}

// askToSpeak adds the frame that asks a connection's model to speak, after its history.
func (r *traceResult) askToSpeak(conn int) {
	for i, f := range r.Frames {
		if f["conn"] == float64(conn) && f["clientContent"] != nil {
			r.insertFrame(i+1, `{"conn":`+string(rune('0'+conn))+`,"clientContent":{"turnComplete":true,"turns":[{"parts":[{"text":"Continue the conversation: answer the user."}],"role":"user"}]}}`)
			return
		}
	}
}

func (r *traceResult) insertFrame(at int, text string) {
	r.Frames = slices.Insert(r.Frames, at, parseMap(text))
}

func (r *traceResult) insertEvent(at int, text string) {
	r.Events = slices.Insert(r.Events, at, parseMap(text))
}

func (r *traceResult) appendBoth(text string) {
	r.Events, r.Stored = append(r.Events, parseMap(text)), append(r.Stored, parseMap(text))
}

func parseMap(text string) map[string]any {
	var m map[string]any
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	return m
}

// renameRecordings changes ADK's recordings to WAV files with this host's references.
func (r *traceResult) renameRecordings() {
	for _, events := range [][]map[string]any{r.Events, r.Stored} {
		for i, ev := range events {
			text, _ := json.Marshal(ev)
			if !strings.Contains(string(text), "_adk_live") {
				continue
			}
			side := "input"
			if strings.Contains(string(text), "_output_") {
				side = "output"
			}
			name := "adk_live_audio_storage_" + side + "_audio_<ms>.wav"
			renamed := parseMap(string(text))
			part := renamed["content"].(map[string]any)["parts"].([]any)[0].(map[string]any)
			part["fileData"] = map[string]any{"fileUri": "artifact://apps/app/users/u/sessions/s/artifacts/" + name + "/versions/0", "mimeType": "audio/wav"}
			renamed["actions"] = map[string]any{"artifactDelta": map[string]any{name: 0.0}}
			events[i] = renamed
		}
	}
}
