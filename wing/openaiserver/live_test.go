package openaiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/servertest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/wing/openaiserver"
)

// A sentEvent is an event in a response's stream.
type sentEvent struct {
	Type   string `json:"type"`
	Number int    `json:"sequence_number"`
	ItemID string `json:"item_id"`
	Delta  string `json:"delta"`
}

func readSent(t *testing.T, text string) *sentEvent {
	t.Helper()
	_, data, _ := strings.Cut(text, "\ndata: ")
	ev := &sentEvent{}
	if err := json.Unmarshal([]byte(data), ev); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return ev
}

// joinDeltas returns a stream's events with one delta for the deltas of a message: its last one, with the text
// of all.
func joinDeltas(t *testing.T, all []string) []string {
	t.Helper()
	var joined []string
	sum := ""
	for i, text := range all {
		ev := readSent(t, text)
		if ev.Delta == "" || strings.Contains(ev.Type, "arguments") {
			joined, sum = append(joined, text), ""
			continue
		}
		if sum += ev.Delta; i+1 < len(all) && readSent(t, all[i+1]).Type == ev.Type {
			continue
		}
		encoded, err := server.EncodeJSON(sum)
		if err != nil {
			t.Fatal(err)
		}
		own, err := server.EncodeJSON(ev.Delta)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, strings.Replace(text, `"delta":`+string(own), `"delta":`+string(encoded), 1))
	}
	return joined
}

// A steppedModel streams each response that arrives, and ends with the channel.
type steppedModel chan *model.Response

func (steppedModel) Name() string { return "stepped" }

func (m steppedModel) Generate(ctx context.Context, _ *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for {
			select {
			case r, ok := <-m:
				if !ok || !yield(r, nil) || !r.Partial {
					return
				}
			case <-ctx.Done():
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

func newChunk(text string, isThought bool) *model.Response {
	return &model.Response{Partial: true, Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: text, Thought: isThought}}}}
}

// newStepped returns a replica with the app slow, whose agent has the model.
func newStepped(t *testing.T, m steppedModel, url string) *servertest.Env {
	t.Helper()
	opts := newOptions(&openaiserver.Options{All: true}, newAuth(t))
	opts.URL = url
	e := servertest.New(t, opts)
	e.AddLLMApp(t, "slow", &runtime.LLMOptions{Model: m})
	return e
}

// A liveStream is an open stream.
type liveStream struct {
	*testing.T
	body *bufio.Scanner
}

// openStream sends a request as the user u. The stream is open until the test ends.
func openStream(t *testing.T, e *servertest.Env, method, path, body string) *liveStream {
	t.Helper()
	web := httptest.NewServer(e.Server)
	r, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+tokenOfU)
	answer, err := web.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close(); web.CloseClientConnections(); web.Close() })
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	return &liveStream{t, bufio.NewScanner(answer.Body)}
}

// next returns the next event with a type.
func (s *liveStream) next(kind string) *sentEvent {
	s.Helper()
	for s.body.Scan() {
		data, ok := strings.CutPrefix(s.body.Text(), "data: ")
		if !ok {
			continue
		}
		if ev := readSent(s.T, "\ndata: "+data); ev.Type == kind {
			return ev
		}
	}
	s.Fatalf("the stream ended before %s: %v", kind, s.body.Err())
	return nil
}

// A response in the background is streamed in chunks by the replica that runs it, to the client that started it
// and to one that follows it. A client that was cut off after a chunk continues with the rest of the text: here
// while the run continues, and on any replica once the message is stored.
func TestLiveChunks(t *testing.T) {
	url, m := "sqlite:///"+filepath.Join(t.TempDir(), "s.db"), make(steppedModel)
	e := newStepped(t, m, url)
	other := newStepped(t, m, url)
	const delta, thought = "response.output_text.delta", "response.reasoning_summary_text.delta"
	first := openStream(t, e, http.MethodPost, "/v1/responses", `{"model":"slow","background":true,"stream":true,"input":"go"}`)
	var id string
	for id == "" && first.body.Scan() {
		_, rest, _ := strings.Cut(first.body.Text(), `"response":{"id":"`)
		id, _, _ = strings.Cut(rest, `"`)
	}
	m <- newChunk("It is 4.", true)
	if ev := first.next(thought); ev.Delta != "It is 4." || ev.Number != 11 {
		t.Errorf("the thought: %+v", ev)
	}
	m <- newChunk("día ", false)
	one := first.next(delta)
	m <- newChunk("two ", false)
	two := first.next(delta)
	if one.Delta != "día " || two.Delta != "two " || two.Number != one.Number+4 {
		t.Errorf("the chunks: %+v, %+v", one, two)
	}
	follow := func(on *servertest.Env, after int) *liveStream {
		return openStream(t, on, http.MethodGet, fmt.Sprintf("/v1/responses/%s?stream=true&starting_after=%d", id, after), "")
	}
	late := follow(e, one.Number)
	if ev := late.next(delta); *ev != *two {
		t.Errorf("followed after the first chunk: %+v, want %+v", ev, two)
	}
	remote := follow(other, 0)
	m <- newChunk("three", false)
	three := first.next(delta)
	if ev := late.next(delta); three.Delta != "three" || *ev != *three {
		t.Errorf("the last chunk: %+v and %+v", three, ev)
	}
	whole := &model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: "It is 4.", Thought: true}, {Text: "día two three"}}}, FinishReason: genai.FinishReasonStop}
	m <- whole
	if ev := remote.next(delta); ev.Delta != "día two three" || ev.Number != three.Number {
		t.Errorf("the other replica has %+v", ev)
	}
	rest := follow(other, two.Number)
	if ev := rest.next(delta); *ev != *three {
		t.Errorf("the other replica continues with %+v, want %+v", ev, three)
	}
	end := first.next("response.completed").Number
	for name, s := range map[string]*liveStream{"here": late, "there": remote, "the rest": rest, "again": follow(other, one.Number+1)} {
		if ev := s.next("response.completed"); ev.Number != end {
			t.Errorf("%s: the end has the number %d, want %d", name, ev.Number, end)
		}
	}
}
