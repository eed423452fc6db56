package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"agenthost/internal/fake/fakemcp"
	"agenthost/internal/limit"
	"agenthost/internal/toolhttp"
	"agenthost/pkg/tool"
)

func newTestFilter(out io.Writer) *messageFilter {
	l := &link{server: &server{}, logger: slog.New(slog.NewTextHandler(out, nil)), redactor: toolhttp.NewRedactor(newTestRedactor())}
	return l.newFilter(newGuard(context.Background(), func(error) {}, time.Now))
}

// TestSkippedLines: what a program prints next to messages is logged: without control characters
// and secrets, at most 200 characters from a line, and at most 20 lines.
func TestSkippedLines(t *testing.T) {
	var log bytes.Buffer
	f := newTestFilter(&log)
	noise := "\u001b[31mready with k3y-of-ops\n" + strings.Repeat("x", 5000) + "\n" + strings.Repeat("again\n", 100)
	out, err := io.ReadAll(newLineReader(strings.NewReader(noise+`{"jsonrpc":"2.0","method":"notifications/progress"}`), f))
	if want := `{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n"; err != nil || string(out) != want {
		t.Errorf("messages = %q, %v", out, err)
	}
	text := log.String()
	if n := strings.Count(text, "\n"); n != maxLogged || !strings.Contains(text, `text="[31mready with ***"`) || strings.Contains(text, strings.Repeat("x", maxLoggedText+1)) {
		t.Errorf("%d lines in the log:\n%.3000s", n, text)
	}
}

// TestLongLine: a line that is too long becomes an error for its request, and the next line is
// read.
func TestLongLine(t *testing.T) {
	f := newTestFilter(io.Discard)
	f.recordMessage([]byte(`{"id":7,"method":"tools/call"}`))
	f.recordMessage([]byte(`{"id":8,"method":"ping"}`))
	text := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", limit.MCPMessage.Bytes) + "\"}\n" + `{"jsonrpc":"2.0","id":8,"result":{}}` + "\n"
	out, err := io.ReadAll(newLineReader(strings.NewReader(text), f))
	const want = `{"error":{"code":-32099,"message":"the server's response cannot be read: it exceeds the limit of 16 MiB"},"id":7,"jsonrpc":"2.0"}` + "\n" +
		`{"id":8,"jsonrpc":"2.0","result":{}}` + "\n"
	if diff := cmp.Diff(want, string(out)); err != nil || diff != "" {
		t.Errorf("messages (-want +got): %v\n%s", err, diff)
	}
}

// TestForgottenRequests: the filter keeps no request that was answered or canceled.
func TestForgottenRequests(t *testing.T) {
	f := newTestFilter(io.Discard)
	for i := range 9 {
		f.recordMessage(fmt.Appendf(nil, `{"id":%d,"method":"tools/call"}`, i))
	}
	for i := range 4 {
		f.recordMessage(fmt.Appendf(nil, `{"method":"notifications/cancelled","params":{"requestId":%d}}`, i))
	}
	f.repairMessages([]byte(`[{"id":4,"result":{}},{"id":"5","error":"x"},{"id":6,"result":1`), "")
	f.repairMessages([]byte(`{"id":7,"result":{}}`), "")
	f.repairMessages([]byte(`{"jsonrpc":"2.0","id":99,"result":{}}`), "8")
	ids := f.pendingIDs()
	slices.Sort(ids)
	if got := strings.Join(ids, " "); got != "4 5 6" {
		t.Errorf("requests = %s, want those of the unreadable batch", got)
	}
}

// TestFailedRequests: the filter keeps no request that the server refused; the response to one
// that it accepted may come in another stream.
func TestFailedRequests(t *testing.T) {
	status := http.StatusAccepted
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	f := newTestFilter(io.Discard)
	client := &http.Client{Transport: &messageTransport{next: http.DefaultTransport, filter: f}}
	for id, code := range []int{202, 400, 503, 404} {
		status = code
		resp, err := client.Post(s.URL, "application/json", strings.NewReader(fmt.Sprintf(`{"id":%d,"method":"tools/call"}`, id)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	s.Close()
	if _, err := client.Post(s.URL, "application/json", strings.NewReader(`{"id":4,"method":"tools/call"}`)); err == nil {
		t.Error("the server is still there")
	}
	if got := strings.Join(f.pendingIDs(), " "); got != "0" {
		t.Errorf("requests = %s", got)
	}
}

// TestEndlessEvents: comments and fields in an event that never ends take no memory, and the events
// after it are read.
func TestEndlessEvents(t *testing.T) {
	for _, line := range []string{": keep-alive", "id: 1", "other: x", "event: message"} {
		text := strings.Repeat(line+"\n", 2*limit.MCPMessage.Bytes/(len(line)+1)) + "\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n"
		transport := &messageTransport{filter: newTestFilter(io.Discard), answersPosts: true}
		r := transport.newEventReader(io.NopCloser(strings.NewReader(text)), "")
		e, err := r.readEvent()
		if err != nil {
			t.Fatal(err)
		}
		first := r.filterEvent(e)
		if len(first) > limit.MCPMessage.Bytes+2 || line[0] == ':' && len(first) > 100 {
			t.Errorf("%s: event of %d bytes, %v", line, len(first), err)
		}
		if rest, err := io.ReadAll(r); err != nil || line[0] != ':' && !strings.Contains(string(rest), "progress") {
			t.Errorf("%s: %d bytes after the event, %v", line, len(rest), err)
		}
	}
}

// TestManyMessages: a batch with too many messages is an error for its request.
func TestManyMessages(t *testing.T) {
	f := newTestFilter(io.Discard)
	f.recordMessage([]byte(`{"id":7,"method":"tools/call"}`))
	got := f.repairMessages([]byte("[{}"+strings.Repeat(",0", maxBatch)+"]"), "7")
	const want = `{"error":{"code":-32099,"message":"the server's response cannot be read: the batch exceeds the limit of 1000 messages"},"id":7,"jsonrpc":"2.0"}`
	if len(got) != 1 || string(got[0].encodeText()) != want {
		t.Errorf("messages = %d, want one: %s", len(got), want)
	}
}

// TestOddResources: when resources and prompts are not as in the protocol, what can be read is
// used.
func TestOddResources(t *testing.T) {
	h := httptest.NewServer(&fakemcp.OddServer{})
	t.Cleanup(h.Close)
	set := buildSet(t, "mcp", "url: "+h.URL+"\nresources: true").(*serverSet)
	l, release, err := set.acquireLink(t.Context(), &tool.Call{State: emptyState{}})
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	listed, err := set.listResources(t.Context(), l, "i")
	if err != nil || len(listed) != 2 || listed[0].Name != "notes" || listed[0].URI != "a:notes" || listed[1].Name != "photo" {
		t.Errorf("resources = %v, %v", listed, err)
	}
	made, err := set.newResourceTool()
	if err != nil {
		t.Fatal(err)
	}
	parts, _, err := made.readResource(t.Context(), l, "a:notes")
	if err != nil || len(parts) != 3 || parts[0].Text != "7" || parts[1].Text != "more" || parts[2].Text != "not available: its blob is not valid base64" {
		t.Errorf("parts = %v, %v", parts, err)
	}
	text, err := set.LoadPrompt(t.Context(), &tool.Call{State: emptyState{}}, &tool.PromptRequest{Name: "greet"})
	if err != nil || text != "Be kind." {
		t.Errorf("prompt = %q, %v", text, err)
	}
}

// FuzzMessages checks that no server message makes the filter or the decoders panic, and that the
// library can decode each message that the filter returns.
func FuzzMessages(f *testing.F) {
	for _, odd := range fakemcp.OddTools() {
		f.Add(strings.ReplaceAll(odd.Response, "ID", "1"))
	}
	f.Add("event: message\ndata: {}\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, method := range []string{"tools/call", "tools/list", "initialize"} {
			filter := newTestFilter(io.Discard)
			filter.recordMessage([]byte(`{"id":1,"method":"` + method + `"}`))
			for _, m := range filter.repairMessages([]byte(text), "1") {
				var whole struct {
					Result struct {
						Meta map[string]any `json:"_meta"`
					}
				}
				encoded := m.encodeText()
				if err := json.Unmarshal(encoded, new(any)); err != nil {
					t.Fatalf("%s of %q: %v", encoded, text, err)
				}
				if method == "tools/call" && json.Unmarshal(encoded, &whole) == nil && m.isResponse {
					raw := unwrapResult(whole.Result.Meta)
					_, _ = decodeCallResult(raw)
					_, _ = decodePrompt(raw)
					_, _, _ = decodeResource(raw)
				}
			}
		}
		if _, err := io.ReadAll(newLineReader(strings.NewReader(text), newTestFilter(io.Discard))); err != nil {
			t.Fatal(err)
		}
		transport := &messageTransport{filter: newTestFilter(io.Discard)}
		if _, err := io.ReadAll(transport.newEventReader(io.NopCloser(strings.NewReader(text)), "1")); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
}

// A response may begin with a byte order mark or be UTF-16.
func TestResponseCharsets(t *testing.T) {
	for name, encoder := range map[string]encoding.Encoding{
		"UTF-8 with a mark":  unicode.UTF8BOM,
		"UTF-16 with a mark": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
	} {
		t.Run(name, func(t *testing.T) {
			s := serveRaw(t)
			s.answer("tools/list", `{"tools":[{"name":"greet","description":"Grüßt.","inputSchema":{"type":"object"}}]}`)
			for method, answer := range s.answers {
				s.answers[method] = func(id, params json.RawMessage) string {
					text, err := encoder.NewEncoder().String(answer(id, params))
					if err != nil {
						t.Error(err)
					}
					return text
				}
			}
			if names := namesOf(t, buildSet(t, "mcp", "url: "+s.URL)); !slices.Equal(names, []string{"greet"}) {
				t.Errorf("tools = %v", names)
			}
		})
	}
}
