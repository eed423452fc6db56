package conformance

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/number"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A Mode is a run's streaming mode, as in file names.
type Mode string

// The modes.
const (
	ModeNone Mode = "none"
	ModeSSE  Mode = "sse"
)

// fileSuffix ends the file names for a mode.
func (m Mode) fileSuffix() string {
	if m == ModeSSE {
		return "-sse.yaml"
	}
	return ".yaml"
}

// maxFileBytes limits a case file.
const maxFileBytes = 64 << 20

// A Case is a folder with a spec.yaml.
type Case struct {
	// Category and Name are the last two folder names.
	Category, Name string
	// Dir is the folder's absolute path.
	Dir  string
	Spec *Spec
}

// String returns the category and the name.
func (c *Case) String() string { return c.Category + "/" + c.Name }

// MarshalText returns the same, for JSON.
func (c *Case) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// A Spec is what a spec.yaml declares.
type Spec struct {
	Description  string
	Agent        string
	InitialState map[string]any
	Messages     []Message
}

// A Message is a user message.
type Message struct {
	// Content is the message, State the state delta that is sent with it.
	Content *genai.Content
	State   map[string]any
}

// specFile and messageConfig are the form of a spec.yaml.
type specFile struct {
	Description  string          `yaml:"description" doc:"Short description of the case."`
	Agent        spec.Text       `yaml:"agent" required:"true" doc:"The app."`
	InitialState map[string]any  `yaml:"initial_state" doc:"The initial state of the session."`
	Messages     []messageConfig `yaml:"user_messages" doc:"The messages of the user, in order."`
}

type messageConfig struct {
	Text    *spec.Text     `yaml:"text" doc:"The text of the message."`
	Content *spec.Node     `yaml:"content" doc:"Instead of text: the whole content."`
	State   map[string]any `yaml:"state_delta" doc:"State that is sent with the message."`
}

// FindCases returns the cases in all folders, sorted by category and name. A folder without
// a case is an error; a spec.yaml with problems is a [spec.Diagnostics].
func FindCases(roots []string) ([]*Case, error) {
	var all []*Case
	var problems spec.Diagnostics
	for _, root := range roots {
		found := len(all)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() != "spec.yaml" {
				return err
			}
			c, err := readCase(path)
			if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
				problems = append(problems, ds...)
				err = nil
			}
			if c != nil {
				all = append(all, c)
			}
			found = -1
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s not found: name a folder with CATEGORY/NAME/spec.yaml", root)
		}
		if err != nil {
			return nil, err
		}
		if found >= 0 {
			return nil, fmt.Errorf("no spec.yaml in %s: name a folder with CATEGORY/NAME/spec.yaml", root)
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	slices.SortFunc(all, func(a, b *Case) int { return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Name, b.Name)) })
	return slices.CompactFunc(all, func(a, b *Case) bool { return a.Dir == b.Dir }), nil
}

func readCase(path string) (*Case, error) {
	n, err := readYAML(path)
	if err != nil {
		return nil, err
	}
	var file specFile
	if ds := spec.Decode(n, &file); ds.HasErrors() {
		return nil, ds
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	c := &Case{Category: filepath.Base(filepath.Dir(dir)), Name: filepath.Base(dir), Dir: dir}
	c.Spec = &Spec{Description: file.Description, Agent: file.Agent.Value, InitialState: file.InitialState}
	for i, m := range file.Messages {
		message, ds := m.decodeMessage(n.Get("user_messages").Items[i])
		if ds.HasErrors() {
			return nil, ds
		}
		c.Spec.Messages = append(c.Spec.Messages, *message)
	}
	return c, nil
}

func (m *messageConfig) decodeMessage(n *spec.Node) (*Message, spec.Diagnostics) {
	switch {
	case m.Content != nil:
		content := &genai.Content{}
		if err := decodeNode(m.Content, session.DecodeContent, &content); err != nil {
			return nil, spec.Diagnostics{m.Content.Errorf("conformance", "%v", err)}
		}
		content.Role = cmp.Or(content.Role, genai.RoleUser)
		return &Message{content, m.State}, nil
	case m.Text != nil:
		return &Message{genai.NewContentFromText(m.Text.Value, genai.RoleUser), m.State}, nil
	}
	return nil, spec.Diagnostics{n.Errorf("conformance", "a message requires text or content")}
}

func decodeNode[T any](n *spec.Node, decode func(b []byte, keys ...any) (T, error), dst *T) error {
	b, err := json.Marshal(n.Any())
	if err != nil {
		return err
	}
	*dst, err = decode(b)
	return err
}

// readYAML reads a file whose root is a mapping.
func readYAML(path string) (*spec.Node, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", path, maxFileBytes>>20)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n, ds := spec.Parse(path, src)
	if ds.HasErrors() {
		return nil, ds
	}
	if n == nil || n.Kind != spec.Mapping {
		return nil, fmt.Errorf("%s must be a mapping", path)
	}
	return n, nil
}

// recordingsPath returns a case's recordings; ok reports whether there are any.
func recordingsPath(dir string, mode Mode) (path string, ok bool) {
	path = filepath.Join(dir, "generated-recordings"+mode.fileSuffix())
	_, err := os.Stat(path)
	return path, err == nil
}

// HasRecordings reports whether a case was recorded in a mode.
func (c *Case) HasRecordings(mode Mode) bool {
	_, ok := recordingsPath(c.Dir, mode)
	return ok
}

// readSession reads the recorded session in a folder.
func readSession(dir string, mode Mode) (map[string]any, error) {
	n, err := readYAML(filepath.Join(dir, "generated-session"+mode.fileSuffix()))
	if err != nil {
		return nil, fmt.Errorf("reading the recorded session: %w", err)
	}
	m, _ := n.Any().(map[string]any)
	return m, nil
}

// A recording is a model or tool call, with what it returned.
type recording struct {
	Message int             `json:"user_message_index"`
	Agent   string          `json:"agent_name"`
	Model   *modelRecording `json:"llm_recording"`
	Tool    *toolRecording  `json:"tool_recording"`
}

type modelRecording struct {
	Request   map[string]any    `json:"llm_request"`
	Responses []json.RawMessage `json:"llm_responses"`
	// Response is the adk-python 1 form.
	Response json.RawMessage `json:"llm_response"`
}

type toolRecording struct {
	Call     toolCall `json:"tool_call"`
	Response struct {
		Response map[string]any `json:"response"`
	} `json:"tool_response"`
}

type toolCall struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// readRecordings reads the recordings in a folder.
func readRecordings(dir string, mode Mode) ([]*recording, error) {
	path, _ := recordingsPath(dir, mode)
	n, err := readYAML(path)
	if err != nil {
		return nil, fmt.Errorf("reading the recordings: %w", err)
	}
	b, err := json.Marshal(n.Any())
	if err != nil {
		return nil, fmt.Errorf("reading the recordings %s: %w", path, err)
	}
	var file struct {
		Recordings []*recording `json:"recordings"`
	}
	if err := number.Decode(b, &file); err != nil {
		return nil, fmt.Errorf("reading the recordings %s: %w", path, err)
	}
	for i, r := range file.Recordings {
		if r == nil || (r.Model == nil) == (r.Tool == nil) {
			return nil, fmt.Errorf("recording %d of %s requires either llm_recording or tool_recording", i+1, path)
		}
		if r.Model != nil && len(r.Model.Response) > 0 && string(r.Model.Response) != "null" {
			r.Model.Responses = append(r.Model.Responses, r.Model.Response)
		}
	}
	return file.Recordings, nil
}

// isBelow reports whether a path is root or lies below it. Both are absolute and clean.
func isBelow(root, path string) bool {
	rel, err := filepath.Rel(root, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
